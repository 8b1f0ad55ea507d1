"""What `privet tune` searches: settings to try, and how many trials there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from privet.data.guard import shown
from privet.errors import ConfigError
from privet.privacy import Law, Trials
from privet.runs.train_config import Asked

# Neither what the data, the split or the guarantee are, nor what only matters for speed.
TUNABLE = (
    *("method", "model", "preset", "scenario"),
    *("epochs", "sample_rate", "batch_size", "learning_rate", "schedule", "clip_norm"),
    *("ema_decay", "public_batch", "views", "perturb", "scale", "origin", "update"),
    *("warm_up", "warm_up_epochs", "warm_up_steps", "warm_up_augment", "extended"),
)
_LAWS = {"0": Law.LOGARITHMIC, "1": Law.GEOMETRIC, "poisson": Law.POISSON}
_KINDS = {each.name: str(each.type).partition(" ")[0] for each in fields(Asked)}
_MOST = 1000
Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Search:
    """Candidates, of which each trial draws one, all with the same probability.

    Args:
        tries: the values of each setting; every combination is a candidate.
        trials: the law of the number of trials.
    """

    tries: Mapping[str, tuple[Any, ...]]
    trials: Trials

    def __post_init__(self) -> None:
        number = len(list(self.candidates()))
        if number > _MOST:
            raise ConfigError(
                f"--try makes {number:,} combinations: try {_MOST:,} at most, of which "
                f"{self.trials.mean:g} are tried on average."
            )

    @classmethod
    def of(cls, tries: Sequence[str], trials: float | None, shape: str) -> Self:
        """Read a search from the command line."""
        if trials is None:
            raise ConfigError("Give --trials: how many there are on average.")
        if shape not in _LAWS:
            raise ConfigError(f"--shape is {shown(shape)!r}: choose {', '.join(_LAWS)}.")
        law = Trials(law=_LAWS[shape], mean=trials)
        if not tries:
            raise ConfigError("Give --try at least once, as in --try learning_rate=0.1,0.3,1.")
        found: dict[str, tuple[Any, ...]] = {}
        for text in tries:
            name, values = _read(text)
            if name in found:
                raise ConfigError(f"--try names {name} twice: give all its values at once.")
            found[name] = values
        return cls(tries=found, trials=law)

    def candidates(self) -> Iterator[Settings]:
        """Yield every combination of values, up to one more than is allowed."""
        for values in itertools.islice(itertools.product(*self.tries.values()), _MOST + 1):
            yield dict(zip(self.tries, values, strict=True))

    def applied(self, asked: Asked, settings: Settings) -> Asked:
        """What a trial with these settings is asked for."""
        for name in self.tries:
            if getattr(asked, name) is not None:
                option = "--" + name.replace("_", "-")
                raise ConfigError(f"{option} is given and tried as well: leave one of them out.")
        return replace(asked, **settings)

    @property
    def words(self) -> dict[str, Any]:
        """What to type for the same search, by option."""
        shapes = {law: text for text, law in _LAWS.items()}
        return {
            "trials": self.trials.mean,
            "shape": shapes[self.trials.law],
            "try": [f"{name}={';'.join(map(str, each))}" for name, each in self.tries.items()],
        }

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"tries": {name: list(each) for name, each in self.tries.items()}} | {
            "trials": asdict(self.trials)
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` was given."""
        tries = {str(name): tuple(each) for name, each in body["tries"].items()}
        return cls(tries=tries, trials=Trials(**body["trials"]))


def told(settings: Settings) -> str:
    """Write settings in words."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _read(text: str) -> tuple[str, tuple[Any, ...]]:
    """Read a name and its values, split at commas, or at semicolons where values have commas."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not values.strip():
        raise ConfigError(f"--try is {shown(text)!r}: give it as in learning_rate=0.1,0.3,1.")
    if name not in TUNABLE:
        raise ConfigError(f"--try cannot vary {shown(name)!r}: choose {', '.join(TUNABLE)}.")
    parts = [each.strip() for each in values.split(";" if ";" in values else ",")]
    found = tuple(_value(name, each) for each in parts if each)
    if len(set(found)) < len(found):
        raise ConfigError(f"--try {name} names a value twice: name each once.")
    return name, found


def _value(name: str, text: str) -> Any:
    kind = {"float": float, "int": int}.get(_KINDS[name], str)
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"--try {name} has {shown(text)!r} among its numbers.") from None
