"""Write into constraints.txt the SHA-256 of every file that its versions may be installed from.

    python scripts/hash_constraints.py

Run it after a version was changed. Hashes come from the index and the folders that pip is set up
for, so a file that is replaced there later is refused by `make setup`. Only wheels are listed where
there are any: they run no code when they are installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._internal.models.index import PyPI

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_LINK = re.compile(r'<a[^>]*href="[^"]*#sha256=([0-9a-f]{64})"[^>]*>\s*([^<\s]+)\s*</a>')
_PYTHONS = ("py3", *(f"{kind}3{minor}" for kind in ("py", "cp") for minor in (11, 12, 13)))
_FOREIGN = ("win", "musllinux", "ios", "android", "wasm", "armv7l", "ppc64le", "s390x", "i686")


def main() -> None:
    """Every pin again, with its hashes."""
    lines = CONSTRAINTS.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    pins = [line.split()[0] for line in lines if "==" in line]
    CONSTRAINTS.write_text("\n".join([*comments, *map(_hashed, pins)]) + "\n")


def _hashed(pin: str) -> str:
    name, version = pin.split("==")
    files = dict(_of_folders(name, version)) | dict(_of_index(name, version))
    wheels = {file: digest for file, digest in files.items() if file.endswith(".whl")}
    found = sorted({digest for file, digest in (wheels or files).items() if _fits(file)})
    if not found:
        sys.exit(f"No file was found for {pin}.")
    return " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in found)])


def _of_index(name: str, version: str) -> Iterator[tuple[str, str]]:
    place = f"{_setting('index-url') or PyPI.simple_url}/{canonicalize_name(name)}/"
    with urllib.request.urlopen(place, timeout=120) as page:
        for digest, file in _LINK.findall(page.read().decode()):
            if _version(file) == version:
                yield file, digest


def _of_folders(name: str, version: str) -> Iterator[tuple[str, str]]:
    """Builds that no index has, such as PyTorch's for processors alone."""
    for folder in (_setting("find-links") or "").split():
        for path in Path(folder).glob("*.whl"):
            own, known, *_ = parse_wheel_filename(path.name)
            if own == canonicalize_name(name) and known.public == version:
                yield path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def _version(file: str) -> str | None:
    try:
        parse = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
        return str(parse(file)[1])
    except ValueError:
        return None


def _fits(file: str) -> bool:
    """Whether Linux or macOS may install it for a Python that Privet is tested with."""
    if not file.endswith(".whl"):
        return True
    return any(
        (tag.interpreter in _PYTHONS or (tag.abi == "abi3" and tag.interpreter.startswith("cp3")))
        and not tag.abi.endswith("t")
        and not any(each in tag.platform for each in _FOREIGN)
        for tag in parse_wheel_filename(file)[3]
    )


def _setting(name: str) -> str | None:
    asked = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    own = os.environ.get(f"PIP_{name.replace('-', '_').upper()}")
    return own or subprocess.run(asked, capture_output=True, text=True).stdout.strip() or None


if __name__ == "__main__":
    main()
