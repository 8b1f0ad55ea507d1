"""A method of synthetic data, audited in one run with many canaries.

All private information of a synthetic set is in the noised sums it is made of, so the auditor reads
those. The rows are its own: pictures of random blocks, as different from each other as pictures
of a few pixels can be. Matching is kept short, since it is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privet.audit.coins import one_run_finding, tossed
from privet.audit.findings import Finding
from privet.audit.trials import Terms
from privet.audit.watched import Roster, watched
from privet.errors import ConfigError
from privet.models import ConvEncoder
from privet.privacy import Relation
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.releases import NoMemory
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.recipes.synthesis_methods import Prepared, System, run
from privet.synthesis import GeneratorTraining

_SIDE, _CLASSES, _BASE, _PUBLIC, _MADE = 8, 3, 24, 96, 6
_SHORT = GeneratorTraining(iterations=2, per_class=2)

SYSTEMS: dict[str, System] = {
    "dp-merf": DpMerf(training=_SHORT, size=600, length_scale=1.0, widths=(4, 4, 4, 4)),
    "dp-mepf": DpMepf(training=_SHORT, stopping=True, checks=1, widths=(4, 4, 4, 4)),
    "sps": Sps(iterations=2, per_class=2, global_size=8, class_size=8),
    "sps-plus": SpsPlus(
        iterations=2,
        later_iterations=2,
        per_class=2,
        global_size=8,
        class_size=8,
        clip_ratios=(1 / 16, 1 / 16),
    ),
    "sps-g": SpsG(
        training=_SHORT,
        early=12,
        middle=12,
        deep=0,
        pixels=12,
        shared=16,
        everywhere=4,
        widths=(4, 4, 4, 4),
    ),
}
"""Every method at a size that an audit takes seconds for."""


@dataclass(frozen=True, kw_only=True)
class SynthesisAudit:
    """An audit of a method of `privet synthesize`, in one run.

    Args:
        method: the name of the method.
        canaries: the number of canaries.
    """

    method: str
    canaries: int = 256

    def __post_init__(self) -> None:
        if self.method not in SYSTEMS:
            raise ConfigError(f"--method is {self.method!r}: choose {', '.join(SYSTEMS)}.")
        if self.canaries < 16:
            raise ConfigError(
                f"An audit in one run needs 16 canaries or more, not {self.canaries}."
            )


def audit_synthesis(audit: SynthesisAudit, terms: Terms) -> Finding:
    """Audit one run with a coin for every canary; the auditor sees every noised sum."""
    rng = np.random.default_rng((terms.seed, 2))
    twins = None if terms.relation is Relation.ADD_REMOVE else _blocks(audit.canaries, rng)
    roster = Roster(_blocks(_BASE, rng), _blocks(audit.canaries, rng), twins)
    prepared = Prepared(
        image_shape=(_SIDE, _SIDE, 1),
        num_classes=_CLASSES,
        encoder=_encoder(terms.seed),
        public=_blocks(_PUBLIC, rng)["images"],
        count=_MADE,
    )
    coins = tossed(audit.canaries, rng)
    with terms.ledger() as ledger:
        reservation = ledger.reserve(epsilon=terms.budget.epsilon)
        size = _BASE + audit.canaries / 2  # declared: a constant, whatever the coins say
        hedge, evidence = watched(roster, coins, reservation, terms.noise_of(0), size)
        run(SYSTEMS[audit.method], hedge, prepared, NoMemory(), terms.on_trial)
        subject = f"{audit.method}, {reservation.plan}"
        return one_run_finding(subject, reservation, evidence, coins, terms)


def _blocks(count: int, rng: np.random.Generator) -> dict[str, Tensor]:
    """Random pictures of black and white pixels, every other one of blocks twice as large."""
    fine = rng.integers(0, 2, (count, _SIDE, _SIDE))
    coarse = rng.integers(0, 2, (count, _SIDE // 2, _SIDE // 2)).repeat(2, 1).repeat(2, 2)
    images = np.where(np.arange(count)[:, None, None] % 2, fine, coarse) * 255
    return {
        "images": torch.from_numpy(images[..., None].astype(np.uint8)),
        "labels": torch.from_numpy(rng.integers(0, _CLASSES, count)),
    }


def _encoder(seed: int) -> ConvEncoder:
    """An untrained encoder with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ConvEncoder(1, widths=(8, 12, 16), pooled=(0,)).folded()
