"""Claim: a few users who need no privacy help all others, at the same guarantee for each of them.

    python benchmarks/federated_users.py --data FOLDER --public FOLDER [--only TEXT]

Table 7 of DOPE-SGD at a small scale: FashionMNIST divided among 6,000 users of ten images each, of
whom 2% are public; Fed-SGD, in which a round draws users, averages each one's gradient over his
images and clips it once. The unit is a user: δ = 1e-5, add-remove, the exact accountant. Nobody is
warmed up, as in the paper, which finds that impractical for users who come and go. Rows:

    all           every user is private
    private-only  public users are dropped
    public-beside public users take part without clipping or noise, by their share of all
    dope          their gradient is what the others' are clipped around (Algorithm 2)

The paper's middle column "only applies privacy on the private users", which may be the second or
the third row here. The learning rate was chosen on MNIST, with 2,000 users at ε = 3: of 0.03, 0.1
and 0.3 for the first row, of 0.03 and 0.1 for the last, and 0.03 was the better one for both. Rows
are kept as they are done. `--tiny` is for a try: nothing of it is kept.
`--public` is not looked at: public users come with the data.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import machine
from kept_rows import Kept, arguments, do_missing
from privet.augment import to_float
from privet.data import ImageSet, load
from privet.hedge import Hedge
from privet.learn import SGD, AsIs, EngineName, Method, Mirror, PublicOrigin
from privet.measure import accuracy, predictions
from privet.models import ConvNet
from privet.privacy import Ledger, Unit
from privet.public import PublicRows
from privet.recipes.training import private_training
from privet.recipes.training_config import Material, TrainingConfig

OUT = machine.RESULTS / "federated_users.json"
DATA, DELTA, USERS, PUBLIC_SHARE, SPLIT_SEED = "fashion_mnist", 1e-5, 6000, 0.02, 0
EPSILONS = (1.0, 4.0, 0.5, 2.0)
ALL, PRIVATE_ONLY, BESIDE, DOPE = "all", "private-only", "public-beside", "dope"
BASE = SGD(momentum=0.9)
SLOTS = {
    ALL: Method(views=AsIs(), update=BASE),
    PRIVATE_ONLY: Method(views=AsIs(), update=BASE),
    BESIDE: Method(
        views=AsIs(), update=Mirror(alpha=1 - PUBLIC_SHARE, schedule="constant", base=BASE)
    ),
    DOPE: Method(views=AsIs(), origin=PublicOrigin(), update=BASE),
}
CONFIG = TrainingConfig(
    method=SLOTS[ALL],
    sampling_rate=1 / 30,
    epochs=3,
    clip_norm=1.0,
    learning_rate=0.03,
    ema_decay=0.9,
    public_batch=256,
    engine=EngineName.LOOP,
)
WIDTH = 32


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run.

    Args:
        method: what public users are for.
        epsilon: for every private user.
        seed: of first weights and of what is public.
        users: how many there are.
        epochs: passes over the private users.
    """

    method: str
    epsilon: float
    seed: int = 0
    users: int = USERS
    epochs: float = CONFIG.epochs

    @property
    def key(self) -> dict[str, object]:
        """What tells rows apart."""
        return {"method": self.method, "epsilon": self.epsilon, "seed": self.seed}

    @property
    def config(self) -> TrainingConfig:
        """The same for all, but for the slots of public users."""
        return replace(CONFIG, method=SLOTS[self.method], epochs=self.epochs, seed=self.seed)

    @property
    def described(self) -> str:
        """Its settings."""
        return f"{self.config}, {self.users} users, {PUBLIC_SHARE:g} public, width {WIDTH}"


def all_rows(**more: Any) -> Iterator[Row]:
    """Headline rows first."""
    for seed in range(3):
        for epsilon in EPSILONS:
            for method in SLOTS:
                yield Row(method=method, epsilon=epsilon, seed=seed, **more)


@dataclass(frozen=True, eq=False)
class Users:
    """Who is private, and what the others give.

    Args:
        private: images of private users.
        ids: whose each of them is.
        public: images of public users.
        test: images of nobody here.
    """

    private: ImageSet
    ids: NDArray[Any]
    public: ImageSet | None
    test: ImageSet

    @property
    def count(self) -> int:
        """Private users, as their owner declares."""
        return len(np.unique(self.ids))


@lru_cache(maxsize=2)
def users(folder: Path, count: int, public: float | None) -> Users:
    """Images divided evenly among users, and users into private and public ones."""
    data = load(folder / f"{DATA}.npz")
    data = data.take(slice(0, len(data) * count // USERS))
    ids = np.random.default_rng(SPLIT_SEED).permutation(len(data)) % count
    split = data.split(public=public, seed=SPLIT_SEED, users=ids)
    assert split.users is not None
    return Users(
        split.private, split.users, split.public, load(folder / f"{DATA}.npz", part="test")
    )


def network(row: Row, data: ImageSet) -> nn.Module:
    """With its first weights."""
    torch.manual_seed(row.seed)
    side, _, channels = data.image_shape
    return ConvNet(data.num_classes, channels, image_size=side, width=WIDTH, strided=True)


def trained(row: Row, folder: Path) -> Kept:
    """One private run, behind a hedge whose units are users."""
    found = users(folder, row.users, None if row.method == ALL else PUBLIC_SHARE)
    model = network(row, found.private)
    seen = found.public if row.method in (BESIDE, DOPE) else None
    material = Material(
        input_shape=found.private.image_shape,
        num_classes=found.private.num_classes,
        public=None if seen is None else PublicRows.from_images(seen),
    )
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        ledger = Ledger.create(
            Path(place) / "ledger.db",
            epsilon=row.epsilon,
            delta=DELTA,
            relation="add-remove",
            unit=Unit.USER,
        )
        hedge = Hedge(
            found.private,
            ledger.reserve(epsilon=row.epsilon),
            users=found.ids,
            declared_size=found.count,
        )
        done = private_training(hedge, model, row.config, material)
        ledger.close()
    return {
        "accuracies": {"cnn": _score(model, found.test)},
        "guarantee": str(done.certificate.guarantee),
        "events": [str(each) for each in done.certificate.plan.events],
        "private_users": found.count,
        "seconds": round(time.perf_counter() - start, 1),
        "code": machine.COMMIT,
    }


def _score(model: nn.Module, test: ImageSet) -> float:
    rows = PublicRows.from_images(test)
    predicted = predictions(lambda batch: model(to_float(batch)), rows.inputs)
    return accuracy(predicted, rows.targets, test.num_classes).overall


def main() -> None:
    """Do what is missing."""
    parser = arguments(__doc__)
    parser.add_argument("--tiny", action="store_true", help="A try that keeps nothing.")
    options = parser.parse_args()

    def do(row: Row) -> Kept:
        return trained(row, options.data)

    if not options.tiny:
        do_missing(OUT, all_rows(), do, lambda _: {"users": USERS}, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        nowhere = Path(folder) / OUT.name
        do_missing(nowhere, all_rows(users=300, epochs=0.3), do, lambda _: {}, options)


if __name__ == "__main__":
    main()
