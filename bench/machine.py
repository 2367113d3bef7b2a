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


def run(command: list, environment: dict[str, str] | None = None) -> dict:
    """The JSON object that a program prints; what it says besides goes to standard error."""
    words = [str(word) for word in command]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    return json.loads(done.stdout)
