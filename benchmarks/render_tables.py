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


def step_cost() -> str:
    """One line for every measured ratio, with what was asked of it."""
    found = _results("step_cost")
    lines = (
        ("WRN-16-4, K = 16: private step", "private_over_sgd", "≤ 1.10"),
        ("Opacus 1.6 over Privet, the same", "opacus_over_private", "≥ 4"),
        ("the same with plain convolutions", "plain_opacus_over_private", ""),
        ("vmap(grad) over Privet, the same", "vmap_over_private", "> 1"),
        ("WRN-16-4, K = 1, batch 64", "one_view_wrn_over_sgd", "≤ 1.8"),
        ("ViT, 6 blocks of width 192, 64 tokens, K = 1", "one_view_vit_over_sgd", "≤ 1.5"),
        ("DOPE over DP-SGD and its public images", "dope_over_its_images", "≤ 1.03"),
        ("mirror, likewise", "mirror_over_its_images", "≤ 1.03"),
        ("AdaDPS, likewise", "adadps_over_its_images", "≤ 1.03"),
        ("2 weight perturbations, K = 16", "perturbations_2_over_sgd", "≤ 1.3"),
        ("4 weight perturbations", "perturbations_4_over_sgd", "≤ 1.6"),
        ("16 weight perturbations", "perturbations_16_over_sgd", "≤ 2.5"),
        ("peak memory, batch 4,096 over 64, loop", "peak_ratio", "≤ 1.05"),
        ("noise and ledger, share of a step", "noise_and_ledger_share", "< 0.05"),
        ("training without privacy, share of GEMM speed", "sgd_share_of_gemm", ""),
    )
    rows = [(name, f"{found[key]:.2f}", aim) for name, key, aim in lines]
    return _table(("figure", "measured", "aim"), rows)


def learn() -> str:
    """One line per row of the learning study; several seeds as mean and range."""
    rows = json.loads((RESULTS / "learn_table.json").read_text())["rows"].values()
    groups: dict[tuple[str, str, float | None], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["name"], row["epsilon"]), []).append(row)
    lines = [_learn_line(*key, group) for key, group in groups.items()]
    return _table(("data", "method", "ε", "K", "steps", "accuracy", "seeds", "no noise"), lines)


def _learn_line(
    data: str, name: str, epsilon: float | None, group: list[dict[str, Any]]
) -> tuple[str, ...]:
    values = [100 * row.get("accuracy", row.get("public_only", 0)) for row in group]
    spread = f" ({min(values):.1f}–{max(values):.1f})" if len(values) > 1 else ""
    bounds = [100 * row["no_noise"] for row in group if "no_noise" in row]
    return (
        data,
        name,
        "—" if epsilon is None else f"{epsilon:g}",
        str(group[0]["views"]),
        str(group[0]["steps"]) if epsilon is not None else "—",
        f"{sum(values) / len(values):.1f}{spread}",
        str(len(values)),
        f"{bounds[0]:.1f}" if bounds else "",
    )


def paper_preset() -> str:
    """Noise of the paper preset by both accountants."""
    return _table(
        ("ε", "epochs", "rate", "steps", "σ (PLD)", "σ (RDP)"),
        [
            (
                f"{line['epsilon']:g}",
                str(line["epochs"]),
                f"{line['rate']:.4f}",
                str(line["steps"]),
                f"{line['noise']['PLD']:.3f}",
                f"{line['noise']['RDP']:.3f}",
            )
            for line in _results("paper_preset")["lines"]
        ],
    )


TABLES: dict[str, Callable[[], str]] = {
    "noise": noise,
    "figures": figures,
    "step_cost": step_cost,
    "learn": learn,
    "paper_preset": paper_preset,
}


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
