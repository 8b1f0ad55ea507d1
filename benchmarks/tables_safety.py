"""Tables of safety: audits, attacks, secure noise, faults and hostile inputs."""

from __future__ import annotations

import math
from typing import Any

from table_text import kept, results, table


def audits() -> str:
    """Audited lower bounds beside claims."""
    rows = [row for row in kept("audit_table")["runs"] if row["bug"] == "none"]
    names = dict.fromkeys((row["name"], row["kind"]) for row in rows)
    epsilons = sorted({row["epsilon"] for row in rows})

    def cell(name: str, epsilon: float) -> str:
        found = [row for row in rows if (row["name"], row["epsilon"]) == (name, epsilon)]
        return f"{math.floor(100 * found[0]['lower_bound']) / 100:.2f}" if found else ""

    lines = [(name, kind, *(cell(name, each) for each in epsilons)) for name, kind in names]
    return table(("audited", "by", *(f"ε = {each:g}" for each in epsilons)), lines)


def audited_bugs() -> str:
    """How many planted bugs an audit found."""
    rows = [row for row in kept("audit_table")["runs"] if row["bug"] != "none"]
    bugs = dict.fromkeys(row["bug"] for row in rows)
    lines = []
    for bug in bugs:
        same = [row for row in rows if row["bug"] == bug]
        lines.append((bug, str(len(same)), str(sum(row["broken"] for row in same))))
    return table(("planted", "audits", "that called it broken"), lines)


def attacks() -> str:
    """Membership inference at every level, beside the most that is allowed."""
    rows = [row for row in kept("attacks")["runs"] if row["attack"] == "membership"]
    lines = [
        (
            row["level"],
            f"{100 * row['accuracy_on_others']:.1f}%",
            name,
            *(_attack_cell(found["figures"][kind]) for kind in ("auc", "hits_at_0.01")),
            _attack_cell(found["figures"]["hits_at_0.001"]),
        )
        for row in rows
        for name, found in row["attacks"].items()
    ]
    head = ("models", "test accuracy", "attack", "AUC", "found at 1% false alarms", "at 0.1%")
    return table(head, lines)


def extractions() -> str:
    """Nearest neighbours of synthetic images."""
    rows = [row for row in kept("attacks")["runs"] if row["attack"] == "extraction"]
    lines = [
        (
            row["level"],
            f"{row['nearer']:.3f} ({row['nearer_by_chance'][0]:.3f} to "
            f"{row['nearer_by_chance'][1]:.3f})",
            f"{row['copies']:.3f}",
            f"{row['chance_copies']:.3f}",
            _attack_cell(row["attacks"]["distance"]["figures"]["auc"]),
        )
        for row in rows
    ]
    head = (
        *("synthetic images", "nearer to a member (by chance)", "copies of members"),
        *("of others", "AUC by distance"),
    )
    return table(head, lines)


def _attack_cell(figure: dict[str, Any]) -> str:
    most = "" if figure["allowed"] is None else f"; ≤ {figure['allowed']:.3f}"
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f}{most})"


def secure_noise() -> str:
    """What it costs."""
    found = results("secure_noise")
    lines = [
        ("a number of the usual noise", f"{found['usual_nanoseconds']:.0f} ns"),
        ("a number of secure noise", f"{found['secure_nanoseconds']:.0f} ns"),
        ("ratio of both, side by side", f"{found['ratio']:g} ×"),
        (
            f"a release of {found['rows']:,} rows of {found['size']} numbers, secure over usual",
            f"{found['release_ratio']:.2f} ×",
        ),
    ]
    return table(("one thread", ""), lines)


def faults() -> str:
    """Kills of every command by each signal, and what was lost of what was paid for."""
    found = kept("faults")
    names = ("SIGKILL", "SIGTERM", "SIGINT")
    rows = [
        (name, str(row["jobs"]), *(str(row["kills"].get(each, 0)) for each in names))
        for name, row in found["commands"].items()
    ]
    jobs = sum(row["jobs"] for row in found["commands"].values())
    total = [sum(row["kills"].get(each, 0) for row in found["commands"].values()) for each in names]
    lost = sum(row["lost"] for row in found["commands"].values())
    rows.append(("all", str(jobs), *map(str, total)))
    return table(("command", "jobs", *names), rows) + (
        f"\n{found['kills']:,} kills in {found['minutes']:.0f} minutes: {found['results']:,}"
        f" results left the hedge, {found['counted']:,} were counted; runs that lost what they had"
        f" paid for, and said so: {lost}; violations: {found['violations']}.\n"
    )


def killed_jobs() -> str:
    """Kills of jobs of several processes."""
    found = kept("killed_jobs")
    kinds = {"rank": "a rank of two", "party": "a party of three", "server": "a server"}
    return table(
        ("killed", "times", "the job finished", "violations"),
        [
            (name, *(str(found[kind][each]) for each in ("kills", "finished")), _none(found[kind]))
            for kind, name in kinds.items()
        ],
    )


def _none(found: dict[str, Any]) -> str:
    return str(len(found["violations"]))


def fuzz() -> str:
    """One line for every target, and one for all."""
    found = kept("fuzz")
    names = ("cases", "accepted", "refused", "crashes")
    lines = {**found["targets"], "all": {name: found[name] for name in names}}
    rows = [(name, *(f"{line[each]:,}" for each in names)) for name, line in lines.items()]
    guided = kept("guided_fuzz")
    below = (
        f"Guided by coverage: {guided['cases']:,} cases of {guided['targets']} targets, "
        f"crashes: {guided['crashes']}."
    )
    return f"{table(('what was damaged', *names), rows)}\n{below}\n"
