"""Whether every file that is installed is the one that its package says it brought.

    python scripts/check_installed.py

Wheels list the SHA-256 of their files. One that was changed afterwards, or is gone, is named, and
the exit code is 1. Known weaknesses of versions need a service that tells of them: `pip-audit` asks
one.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path


def main() -> None:
    """Look at all of them."""
    found = sorted(distributions(), key=lambda each: each.name)
    wrong = [place for each in found for place in _wrong(each)]
    for place in wrong:
        print(place)
    print(f"{len(found)} packages, {len(wrong)} files that are not as they were installed")
    sys.exit(1 if wrong else 0)


def _wrong(package: Distribution) -> list[str]:
    return [
        f"{package.name}: {file}"
        for file in package.files or ()
        if file.hash is not None and _digest(Path(str(file.locate()))) != file.hash.value
    ]


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
