"""A `strata serve` for a script that checks it: started on a free port of the loopback address, and stopped at the end.

    import strata_server

    server = strata_server.StrataServer(program, folder, ["tale"])
    ...
    server.stop()
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request


class StrataServer:
    """A server whose store is `folder`; `arguments` follow `strata serve` and its address."""

    def __init__(self, program, folder, arguments=(), **environment):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.program = program
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {**os.environ, "OLLAMA_MODELS": folder, **environment}
        command = [program, "serve", *arguments, "--host", f"127.0.0.1:{port}"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.environment)
        deadline = time.time() + 60
        while True:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5)
                break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server ended: " + self.process.stderr.read())
                if time.time() > deadline:
                    sys.exit("the server does not answer")
                time.sleep(0.1)

    def stop(self):
        """Asks it to end, and gives its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=60)
