"""Claim: bookkeeping starts without torch: `--help` in half, `account` in less than its import.

Each command runs in a fresh process of this interpreter, one after the other in every round, next
to `import torch`. A command after which torch is loaded ends the script.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from privet.privacy import GaussianRelease, Ledger, Plan

CLAIMED = {"help": 0.5, "account": 1.0}
_ACCOUNT = ["account", "--epsilon", "1", "--delta", "1e-5", "--releases", "1"]
_IS_TORCH_LOADED = """
import sys
from privet.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
sys.exit(3 if "torch" in sys.modules else 0)
"""


def commands(ledger: Path) -> dict[str, list[str]]:
    """What follows `privet`, by name."""
    return {
        "help": ["--help"],
        "account": _ACCOUNT,
        "account_rdp": [*_ACCOUNT, "--accountant", "rdp"],
        "ledger_show": ["ledger", "show", str(ledger)],
    }


def measure(repetitions: int) -> dict[str, Any]:
    """Medians, and their ratios to the import of torch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger.create(path, epsilon=1.0, delta=1e-5, relation="add-remove")
        ledger.reserve(plan=Plan.of(GaussianRelease(noise_multiplier=10.0)))
        ledger.close()
        wanted = commands(path)
        for words in wanted.values():
            _run(["-c", _IS_TORCH_LOADED, *words])
        programs = {name: ["-m", "privet", *words] for name, words in wanted.items()}
        seconds = _alternate({"import_torch": ["-c", "import torch"], **programs}, repetitions)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = {name: median[name] / median["import_torch"] for name in wanted}
    return {
        "repetitions": repetitions,
        "seconds_median": median,
        "seconds_best": {name: min(values) for name, values in seconds.items()},
        "ratio_to_import_torch": ratio,
        "claimed_ratio": CLAIMED,
        "torch_loaded_by": [],
        "holds": all(ratio[name] < most for name, most in CLAIMED.items()),
    }


def _alternate(programs: dict[str, list[str]], repetitions: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for repetition in range(repetitions + 1):
        for name, words in programs.items():
            start = time.perf_counter()
            _run(words)
            if repetition:  # the first round fills the page cache
                seconds[name].append(time.perf_counter() - start)
    return seconds


def _run(words: list[str]) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode == 3:
        raise SystemExit(f"privet {' '.join(words[2:])} loads torch.")
    if done.returncode:
        raise SystemExit(f"{words} failed: {done.stderr}")


def main() -> None:
    """Measure and keep."""
    options = machine.arguments(__doc__ or "", repetitions=9)
    results = measure(options.repetitions)

    def text() -> str:
        lines = [f"import torch: {results['seconds_median']['import_torch']:.2f} s"]
        lines += [
            f"{name}: {results['seconds_median'][name]:.2f} s, {ratio:.2f} of it"
            for name, ratio in results["ratio_to_import_torch"].items()
        ]
        return "\n".join([*lines, f"the claim {'holds' if results['holds'] else 'FAILS'}"])

    machine.keep("startup", results, text, seeds=[], json_=options.json)


if __name__ == "__main__":
    main()
