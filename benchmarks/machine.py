"""What a figure was measured on, and how it is kept: shared by every script in this folder."""

import argparse
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
LOAD_AT_START = round(os.getloadavg()[0], 2)  # of the last minute; what others ran disturbs times


def facts() -> dict[str, Any]:
    """The machine and the versions; no names of hosts, people or folders."""
    return {
        "cores": os.cpu_count(),
        "load_at_start": LOAD_AT_START,
        "cpu": _cpu(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "numpy", "dp-accounting", "privet")},
        "commit": COMMIT,
    }


def arguments(description: str, **defaults: int) -> argparse.Namespace:
    """`--json`, and one whole-number option for each default."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"Default: {value}.")
    return parser.parse_args()


def keep(
    name: str,
    results: Mapping[str, Any],
    text: Callable[[], str],
    *,
    seeds: Sequence[int],
    json_: bool,
    headline: Sequence[str] = (),
) -> None:
    """Write the result file, then print the same as JSON or as a short text.

    Results named in `headline` stand at the top as well.
    """
    top = {key: results[key] for key in headline}
    content = {"name": name, **top, "results": results, "seeds": list(seeds), "machine": facts()}
    write(RESULTS / f"{name}.json", content)
    print(json.dumps(content) if json_ else text())


def write(path: Path, content: Mapping[str, Any]) -> None:
    """All of the file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as draft:
        draft.write(json.dumps(content, indent=2) + "\n")
    Path(draft.name).chmod(0o644)
    Path(draft.name).replace(path)


def peak_mib() -> float:
    """The most memory that this process has held."""
    # Not getrusage: its peak is that of the parent process where that is larger.
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [each for each in lines if "VmHWM" in each]
    return int(line.split()[1]) / 1024


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit, marked where the sources differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    return head and head + ("+changes" if _git("status", "--porcelain", "src") else "")


def settings_commit(*names: str) -> str:
    """The commit that froze the settings; refused while they are not committed."""
    files = [f"benchmarks/{name}" for name in names]
    if _git("status", "--porcelain", *files) != "":
        raise SystemExit("Commit the settings first: " + ", ".join(files))
    return _git("log", "-1", "--format=%h", "--", *files) or ""


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


COMMIT = _commit()  # of the code that was loaded, whatever is committed meanwhile
