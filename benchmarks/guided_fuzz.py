"""Claim: nor do readers crash on bytes that were bred to reach their every line.

    pip install --group fuzz
    python benchmarks/guided_fuzz.py [--only TEXT] [--minutes 1] [--stale] [--list]

The targets of `fuzz.py`, each in a process of its own for some minutes. Atheris changes a file's
bytes, keeps what reached lines of Privet that nothing reached before, and changes that further. It
is blind to formats, so that it comes less deep than `fuzz.py`, and sees what nobody thought of. A
search ends at its first crash, hang or gigabytes of memory.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz
import kept_rows
import machine
from fuzz_targets import TARGETS, Target

OUT = machine.RESULTS / "guided_fuzz.json"
NOT_OF_BYTES = "command lines"  # the study itself writes them down as JSON
LONGEST, MEMORY_MIB, SECONDS = 65536, 4096, 30  # of one case


@dataclass(frozen=True)
class Search:
    """In one target."""

    target: Target

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells searches apart."""
        return {"target": self.target.name}

    @property
    def described(self) -> str:
        """Sources that were looked at: a search of others is stale."""
        return fuzz.SOURCES


def do(search: Search, samples: Path, minutes: float) -> dict[str, Any]:
    """What a process says in the end."""
    own = [__file__, "--samples", str(samples), "--minutes", str(minutes)]
    ended = subprocess.run(
        [sys.executable, *own, "--inside", search.target.name],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    told = ended.stdout + ended.stderr
    runs, reached = [("0", "0"), *re.findall(r"^#(\d+)\t.* cov: (\d+) ", told, re.MULTILINE)][-1]
    done = re.search(r"^Done (\d+) runs", told, re.MULTILINE)
    return {
        "cases": int(done[1] if done else runs),
        "reached": int(reached),
        "crash": None if done and not ended.returncode else told[-2000:],
        "minutes": minutes,
        "commit": machine.COMMIT,
    }


def look(target: Target, samples: Path, minutes: float) -> None:
    """The first byte of a case chooses the file that the others are."""
    import atheris

    with atheris.instrument_imports(include=["privet"]):
        for name in [name for name in sys.modules if name.startswith("privet")]:
            del sys.modules[name]
        import privet.cli
        import privet.runs.loading  # noqa: F401
    from privet.errors import PrivetError

    folder = Path(tempfile.mkdtemp(prefix="privet-fuzz-", dir=fuzz.fast()))
    place, original = folder / "case", samples / target.sample
    shutil.copytree(original, place)
    names = [name for name, _ in target.files(original)]
    os.environ["PRIVET_FUZZ_SAMPLES"] = str(samples)

    def one(content: bytes) -> None:
        path = place / names[content[0] % len(names) if content else 0]
        path.unlink()
        path.write_bytes(content[1:])
        try:
            target.read(place)
        except PrivetError:
            pass
        finally:
            fuzz.put_back(place, original)

    corpus = folder / "corpus"
    corpus.mkdir()
    for number, name in enumerate(names):
        (corpus / f"{number}").write_bytes(bytes([number]) + (original / name).read_bytes())
    limits = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY_MIB}", f"-max_len={LONGEST}"]
    seconds = f"-max_total_time={int(60 * minutes)}"
    where = f"-artifact_prefix={folder}/"
    atheris.Setup([sys.argv[0], str(corpus), seconds, where, *limits], one)
    atheris.Fuzz()


def summary(runs: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Totals."""
    return {
        "cases": sum(run["cases"] for run in runs),
        "targets": len(runs),
        "crashes": sum(run["crash"] is not None for run in runs),
    }


def main() -> None:
    """Every target that is missing, or one inside this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="Targets whose name contains this text.")
    parser.add_argument("--minutes", type=float, default=1.0, help="For each target.")
    parser.add_argument("--samples", type=Path, help="Where valid files are, or are to be made.")
    parser.add_argument("--stale", action="store_true", help="Those of other sources once more.")
    parser.add_argument("--list", action="store_true", help="Print what is missing, do nothing.")
    parser.add_argument("--inside", metavar="TARGET", help="Look in this process.")
    options = parser.parse_args()
    samples, minutes = fuzz.made_samples(options.samples), options.minutes
    if options.inside:
        [target] = [each for each in TARGETS if each.name == options.inside]
        look(target, samples, minutes)
        return
    options.minutes = float("inf")
    searches = (Search(each) for each in TARGETS if each.name != NOT_OF_BYTES)
    kept_rows.do_missing(OUT, searches, lambda each: do(each, samples, minutes), summary, options)


if __name__ == "__main__":
    main()
