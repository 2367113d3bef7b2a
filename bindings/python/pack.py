"""Packs a wheel of a library that is built already: python pack.py LIBRARY FOLDER. `pip install .` builds one instead."""

import base64
import hashlib
import pathlib
import platform
import sys
import zipfile

HERE = pathlib.Path(__file__).parent
NAME, VERSION = "strata_llm", "0.1.0"


def main() -> None:
    library, folder = (pathlib.Path(argument) for argument in sys.argv[1:3])
    tag = f"cp310-abi3-linux_{platform.machine()}"
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        f"strata/{path.name}": path.read_bytes()
        for path in sorted((HERE / "python/strata").iterdir())
        if path.suffix in (".py", ".pyi", ".typed") or path.name == "py.typed"
    }
    files["strata/_strata.abi3.so"] = library.read_bytes()
    metadata = f"Metadata-Version: 2.4\nName: strata-llm\nVersion: {VERSION}\nRequires-Python: >=3.10\n"
    files[f"{info}/METADATA"] = metadata.encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: strata\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{NAME}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    print(target)


main()
