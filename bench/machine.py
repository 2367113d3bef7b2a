"""What the scripts here share: the machine in words, and programs that print JSON."""

import json
import os
import pathlib
import signal
import subprocess
import sys


def describe() -> str:
    """The processor and how busy it is: a busy machine slows everybody, and unevenly."""
    model = "unknown processor"
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} processors, {load()}"


def load() -> str:
    return "load average " + " ".join(f"{value:.2f}" for value in os.getloadavg())


class Turns:
    """A program that measures something for each line that it is sent, and reports when there are no more."""

    def __init__(self, command: list, environment: dict[str, str] | None = None) -> None:
        words = [str(word) for word in command]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(words, **pipes, env={**os.environ, **(environment or {})})

    def take(self, turn: str) -> dict:
        try:
            self.process.stdin.write(f"{turn}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise failure(self.process.args, self.process.wait())
        return json.loads(line)

    def end(self) -> dict:
        report, _ = self.process.communicate()
        if self.process.returncode:
            raise failure(self.process.args, self.process.returncode)
        return json.loads(report)


def run(command: list, environment: dict[str, str] | None = None) -> dict:
    """The JSON object that a program prints; what it says besides goes to standard error."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    if done.returncode:
        raise failure(words, done.returncode)
    return json.loads(done.stdout)


def failure(words: list[str], code: int) -> SystemExit:
    """Which program failed and how. The Python programs run llama.cpp."""
    name = f"{pathlib.Path(words[1]).name} (llama.cpp)" if words[0] == sys.executable else " ".join(words[:2])
    if code < 0:
        return SystemExit(f"{name} was killed by signal {-code} ({signal.strsignal(-code)})")
    return SystemExit(f"{name} failed with exit status {code}")
