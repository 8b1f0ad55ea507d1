"""Every run of the release study, and its settings: chosen on public data, frozen by their commit.

The surrogate for MNIST and FashionMNIST are printed letters A to J: 8,000 of them stand in for the
private images (with noise scaled to as many images), 2,000 for the test images, and the encoder
does not see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from privet.privacy import Relation
from privet.recipes.mean_embeddings import DpMepf, DpMerf
from privet.recipes.sps import Sps, SpsPlus
from privet.recipes.sps_g import SpsG
from privet.recipes.synthesis_methods import System
from privet.share import ClassifierTraining
from privet.synthesis import GeneratorTraining

DELTA = 1e-5
NO_NOISE = 0.0  # stands for ε = ∞
ENCODERS = {"mnist": "photos+letters", "fashion_mnist": "photos+letters"}
COMPONENTS = {"mnist": "photos+letters", "fashion_mnist": "photos+letters"}
CLASSIFIERS = ("logistic", "mlp", "cnn", "encoder")
CNN = ClassifierTraining(epochs=8)
FINE_TUNING = ClassifierTraining(epochs=4, learning_rate=1e-3)

_MEAN = GeneratorTraining(iterations=2000, per_class=10, learning_rate=1e-3)
_CPU_SPS = {"global_size": 48, "class_size": 48, "iterations": 300, "later_iterations": 150}
SYSTEMS: dict[str, System] = {
    "dp-merf": DpMerf(training=_MEAN, size=10_000),
    "dp-mepf-1": DpMepf(training=_MEAN, second=False),
    "dp-mepf": DpMepf(training=_MEAN),
    "sps": Sps(**_CPU_SPS),  # type: ignore[arg-type]
    "sps-plus": SpsPlus(**_CPU_SPS),  # type: ignore[arg-type]
    "sps-g": SpsG(),
}
IMAGES = {"sps": 1000, "sps-plus": 1000}
MOST_IMAGES = 10_000


@dataclass(frozen=True, kw_only=True)
class Run:
    """One synthetic set."""

    data: str
    method: str
    epsilon: float
    seed: int = 0
    relation: Relation = Relation.ADD_REMOVE

    @property
    def key(self) -> dict[str, object]:
        """What tells runs apart."""
        return {
            "data": self.data,
            "method": self.method,
            "epsilon": None if self.epsilon == NO_NOISE else self.epsilon,
            "seed": self.seed,
            "relation": self.relation.value,
        }

    @property
    def images(self) -> int:
        """How many are made."""
        return IMAGES.get(self.method, MOST_IMAGES)

    @property
    def system(self) -> System:
        """Its settings; seeds differ."""
        return replace(SYSTEMS[self.method], seed=self.seed)


def all_runs() -> Iterator[Run]:
    """Headline rows first, so that a study that stops early has them."""
    sets = ("mnist", "fashion_mnist")
    for epsilon in (1.0, 0.2, 10.0, 2.0):
        for data in sets:
            yield Run(data=data, method="sps-g", epsilon=epsilon)
    for data in sets:
        yield Run(data=data, method="sps-g", epsilon=NO_NOISE)
    for epsilon in (1.0, 10.0):
        for method in ("dp-mepf", "sps", "sps-plus", "dp-merf", "dp-mepf-1"):
            for data in sets:
                yield Run(data=data, method=method, epsilon=epsilon)
    for data in sets:
        yield Run(data=data, method="dp-mepf", epsilon=1.0, relation=Relation.REPLACE_ONE)
    for seed in (1, 2):
        for epsilon in (1.0, 0.2, 10.0, 2.0):
            for data in sets:
                yield Run(data=data, method="sps-g", epsilon=epsilon, seed=seed)
    for method in ("dp-mepf", "sps", "sps-plus", "dp-merf", "dp-mepf-1"):
        for data in sets:
            yield Run(data=data, method=method, epsilon=NO_NOISE)
