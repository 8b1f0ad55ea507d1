"""A bill of materials: every package that a release was tested with, as CycloneDX reads it.

    python scripts/sbom.py FILE

Versions and hashes are those of constraints.txt, licences what packages say of themselves. The same
inputs give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_PIN = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


def bill() -> dict[str, Any]:
    """Of Privet itself, and of all that is pinned."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("privet", version("privet"))},
        "components": [
            _component(name, pinned) | {"hashes": _hashes(hashes)}
            for name, pinned, hashes in _PIN.findall(CONSTRAINTS.read_text())
        ],
    }


def _component(name: str, pinned: str) -> dict[str, Any]:
    place = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{pinned}"
    found = {"type": "library", "name": name, "version": pinned, "purl": place, "bom-ref": place}
    licence = _licence(name)
    return found if licence is None else found | {"licenses": [{"license": {"name": licence}}]}


def _licence(name: str) -> str | None:
    """An expression, else a classifier, else the first line of a text."""
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return None
    classified = [each for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    named = [each.rsplit(" :: ", 1)[1] for each in classified]
    text = (told.get("License") or "").strip().split("\n")[0]
    return told.get("License-Expression") or " and ".join(named) or text or None


def _hashes(lines: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": each} for each in re.findall(r"[0-9a-f]{64}", lines)]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n")
