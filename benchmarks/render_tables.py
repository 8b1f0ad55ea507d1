"""Write the tables of README and docs from the result files; `--check` only compares.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, and is never edited by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md")))
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """A page with every table made anew."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


def noise() -> str:
    """Noise of one-shot releases by both accountants."""
    table = _results("calibration")["one_shot_releases"]
    chosen = [row for row in table if row["releases"] in (1, 5)]
    return _table(
        ("ε", "releases", "RDP", "Privet", "less noise"),
        [
            (
                f"{row['epsilon']:g}",
                str(row["releases"]),
                f"{row['rdp']:.3f}",
                f"{row['pld']:.3f}",
                f"{row['percent_less']:.1f}%",
            )
            for row in chosen
        ],
    )


def figures() -> str:
    """One line for every measured claim."""
    total, crash = _results("clipped_sum"), _results("crash_ledger")
    start = _results("startup")["ratio_to_import_torch"]
    step = _results("step_overhead")["milliseconds_median"]
    memory = total["memory"]["extra_mib"]
    rows = (
        (
            "clipped sum of 60,000 × 4,096 over PyTorch's and NumPy's plain sum",
            _pair(total["speed"], "ratio", "ratio_to_numpy"),
        ),
        (
            "its extra memory at 15,000 and at 60,000 rows",
            f"{memory['15000']:.1f} and {memory['60000']:.1f} MiB",
        ),
        ("`privet --help` over `import torch`", f"{start['help']:.2f} ×"),
        ("`privet account` (PLD, RDP) over `import torch`", _pair(start, "account", "account_rdp")),
        (
            "slowest calibration for 10,000 steps",
            f"{_results('calibration')['slowest_seconds']:.1f} s",
        ),
        ("ledger per step", f"{step['ledger']:.1f} ms"),
        ("noise for 2.7 million coordinates", f"{step['noise']:.0f} ms"),
        (
            "processes killed; results out, counted, missing",
            f"{crash['kills']}; {crash['witnessed_results']:,}, {crash['counted_results']:,}, "
            f"{len(crash['violations'])}",
        ),
    )
    return _table(("figure", "measured"), rows)


def _pair(values: dict[str, float], one: str, other: str) -> str:
    return f"{values[one]:.2f} and {values[other]:.2f} ×"


TABLES: dict[str, Callable[[], str]] = {"noise": noise, "figures": figures}


def _results(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())["results"]
    return content


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Write, or fail if a page is stale."""
    stale = [page for page in PAGES if rendered(page.read_text()) != page.read_text()]
    if "--check" in sys.argv:
        raise SystemExit(f"stale: {', '.join(page.name for page in stale)}" if stale else 0)
    for page in stale:
        page.write_text(rendered(page.read_text()))
        print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
