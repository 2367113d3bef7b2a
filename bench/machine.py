"""What the scripts here share: the machine in words, and programs that print JSON."""

import json
import os
import pathlib
import subprocess


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
        self.process.stdin.write(f"{turn}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> dict:
        report, _ = self.process.communicate()
        if self.process.returncode:
            raise SystemExit(f"{self.process.args[0]} failed with {self.process.returncode}")
        return json.loads(report)


def run(command: list, environment: dict[str, str] | None = None) -> dict:
    """The JSON object that a program prints; what it says besides goes to standard error."""
    words = [str(word) for word in command]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    return json.loads(done.stdout)
