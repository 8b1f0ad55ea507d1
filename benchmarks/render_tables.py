"""Write the tables of README and docs from the result files; `--check` only compares.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, and is never edited by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from table_text import ROOT
from tables_beyond import beyond_images, continual, federated_release, federated_users, hybrid
from tables_choosing import choosing, choosing_epsilon, choosing_noise
from tables_costs import demo, figures, noise, paper_preset, public_cost, release_cost, step_cost
from tables_learning import ensembles, learn, learn_summary
from tables_public import public_ladder, public_sets, public_studies
from tables_releases import release_ablations, release_imbalance, release_summary, releases
from tables_safety import (
    attacks,
    audited_bugs,
    audits,
    extractions,
    faults,
    fuzz,
    killed_jobs,
    secure_noise,
)
from tables_studies import studies_so_far

PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md")))
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """A page with every table made anew."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


TABLES: dict[str, Callable[[], str]] = {
    "hybrid": hybrid,
    "federated_release": federated_release,
    "federated_users": federated_users,
    "audits": audits,
    "audited_bugs": audited_bugs,
    "secure_noise": secure_noise,
    "attacks": attacks,
    "extractions": extractions,
    "fuzz": fuzz,
    "noise": noise,
    "demo": demo,
    "figures": figures,
    "faults": faults,
    "killed_jobs": killed_jobs,
    "step_cost": step_cost,
    "learn_mnist": lambda: learn("mnist"),
    "learn_fashion_mnist": lambda: learn("fashion_mnist"),
    "learn_cifar10": lambda: learn("cifar10 features: lite0 160"),
    "learn_summary": learn_summary,
    "ensembles": ensembles,
    "paper_preset": paper_preset,
    "releases": releases,
    "release_summary": release_summary,
    "release_imbalance": release_imbalance,
    "release_ablations": release_ablations,
    "continual": continual,
    "release_cost": release_cost,
    "public_sets": public_sets,
    "public_ladder": public_ladder,
    "public_studies": public_studies,
    "public_cost": public_cost,
    "beyond_images": beyond_images,
    "choosing": choosing,
    "choosing_epsilon": choosing_epsilon,
    "choosing_noise": choosing_noise,
    "studies_so_far": studies_so_far,
}


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
