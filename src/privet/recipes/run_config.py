"""What a run was asked for, and the complete configuration that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from privet.augment import CropFlip
from privet.errors import ConfigError, DataError
from privet.learn import EngineName, Method, Mixed
from privet.privacy import Budget, Ledger, Relation, Unit
from privet.public import WarmUp
from privet.recipes.models import ImageShape, Model
from privet.recipes.presets import PRESETS, SCHEDULES, Preset, augmentation, named
from privet.recipes.private_training import TrainingConfig, num_joined
from privet.recipes.sets import DataChoice, Sets
from privet.recipes.slots import FORMS, SLOT_NAMES, read_slot

_WARM_UPS = {"none": None, "public": None}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command line, in which nearly everything may be left out."""

    data: str | None = None
    method: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    public: str | None = None
    test: str | None = None
    resize: str | None = None
    channels: str | None = None
    model: str | None = None
    preset: str | None = None
    declared_size: float | None = None
    batch_size: float | None = None
    sample_rate: float | None = None
    epochs: float | None = None
    learning_rate: float | None = None
    clip_norm: float | None = None
    schedule: str | None = None
    ema_decay: float | None = None
    keep_last: int | None = None
    public_batch: int | None = None
    warm_up: str | None = None
    warm_up_epochs: int | None = None
    extended: float | None = None
    views: str | None = None
    perturb: str | None = None
    scale: str | None = None
    origin: str | None = None
    update: str | None = None
    ledger: str | None = None
    relation: str | None = None
    engine: str | None = None
    diagnostics: bool | None = None
    seed: int | None = None

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Asked:
        """Those of many words that belong here."""
        return cls(**{each.name: words.get(each.name) for each in fields(cls)})

    def placed(self) -> Asked:
        """With files and folders that are found from anywhere, to be saved."""
        choice = self.data_choice
        return replace(
            self,
            data=choice.source,
            public=choice.public,
            test=choice.test,
            ledger=None if self.ledger is None else _absolute(self.ledger),
            model=None if self.model is None else _placed_model(self.model),
        )

    def over(self, earlier: Mapping[str, Any]) -> Asked:
        """What was asked for before, where nothing is asked for now."""
        return Asked(**{**earlier, **self.given})

    @property
    def given(self) -> dict[str, Any]:
        """What was not left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def budget(self) -> Budget:
        """ε and δ, which have no defaults."""
        if self.epsilon is None or self.delta is None:
            raise ConfigError("Give --epsilon and --delta: a guarantee has no default.")
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def data_choice(self) -> DataChoice:
        """Where images come from."""
        if self.data is None:
            raise ConfigError("Give DATA: a built-in name (digits, mnist5k) or a path.")
        return DataChoice(
            source=self.data,
            public=self.public,
            test=self.test,
            resize=self.resize,
            channels=self.channels,
            seed=self.seed or 0,
        ).placed()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides what a run does, but for noise and the place where it lies.

    Args:
        method: the name that the slots started from.
        data: where images come from.
        image_shape: of every image.
        class_names: of the private images.
        model: what is trained.
        budget: what the run may spend.
        relation: which data sets are neighbours.
        ledger: the owner's, or none for one of the run's own.
        declared_size: the number of private images as the owner declares it, to two digits.
        training: every setting of the training itself.
        diagnostics: whether to look at private rows outside the guarantee.
        seeded: whether noise comes from a seed, so that the run is not private.
    """

    method: str
    data: DataChoice
    image_shape: ImageShape
    class_names: tuple[str, ...]
    model: Model
    budget: Budget
    relation: Relation
    training: TrainingConfig
    ledger: str | None = None
    declared_size: float | None = None
    diagnostics: bool = False
    seeded: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with a kind in every slot."""
        body: dict[str, Any] = FORMS.plain(RunConfig, self)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` was given."""
        try:
            made: Self = FORMS.made(cls, body, "config")
        except (ConfigError, TypeError, ValueError, KeyError) as error:
            raise DataError(f"The configuration cannot be read ({error}).") from None
        return made


def resolved(asked: Asked, sets: Sets, *, seeded: bool) -> RunConfig:
    """The complete configuration: what was asked for, the preset's settings elsewhere."""
    budget = asked.budget
    preset = preset_of(asked)
    model = read_model(asked.model or preset.model)
    shape = sets.private.image_shape
    augment = augmentation(shape) if model.sees_images else None
    return RunConfig(
        method=_method_name(asked),
        data=asked.data_choice,
        image_shape=shape,
        class_names=sets.private.class_names or (),
        model=model,
        budget=budget,
        relation=_relation(asked),
        ledger=None if asked.ledger is None else _absolute(asked.ledger),
        declared_size=_two_digits(asked.declared_size),
        training=_training(asked, preset, sets, augment),
        diagnostics=bool(asked.diagnostics),
        seeded=seeded,
    )


def preset_of(asked: Asked) -> Preset:
    """What holds where nothing else is asked for."""
    make = PRESETS[named(PRESETS, asked.preset or "cpu", "--preset")]
    return make(asked.budget.epsilon)


def read_model(text: str) -> Model:
    """A name with settings, or the folder of a saved transformer."""
    folder, _, settings = _placed_model(text).partition(":")
    if Path(folder).is_absolute():
        text = ",".join(filter(None, [f"transformers:folder={folder}", settings]))
    model: Model = FORMS.read(Model, text, "--model")
    return model


def _placed_model(text: str) -> str:
    """A folder's name in full; anything else as it is."""
    folder, colon, settings = text.partition(":")
    if folder in FORMS.tables[Model] or not Path(folder).expanduser().is_dir():
        return text
    return f"{_absolute(folder)}{colon}{settings}"


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def first_difference(run: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first setting that differs between two configurations, in words."""
    for name, one, other in _differences(run, now, ""):
        return f"{name} is {one!r} in the run and {other!r} now"
    return None


def _differences(one: Any, other: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            inner = f"{name}.{key}" if name else key
            yield from _differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield name, one, other


def _method_name(asked: Asked) -> str:
    if asked.method is None:
        raise ConfigError("Give --method: dp-sgd, dp-mix, dope, mirror, adadps, ….")
    return asked.method


def _relation(asked: Asked) -> Relation:
    """What was asked for, or add-or-remove; an owner's ledger has its own terms."""
    known = {each.value: each for each in Relation}
    wanted = None if asked.relation is None else named(known, asked.relation, "--relation")
    if asked.ledger is None:
        return known[wanted or Relation.ADD_REMOVE.value]
    ledger = Ledger.open(Path(asked.ledger).expanduser())
    try:
        terms = {
            "--delta": (asked.delta, ledger.budget.delta),
            "--relation": (wanted or ledger.relation.value, ledger.relation.value),
            "the unit": (Unit.EXAMPLE.value, ledger.unit.value),
        }
        for name, (ours, theirs) in terms.items():
            if ours != theirs:
                raise ConfigError(f"{name} is {ours} and the ledger's is {theirs}: give that one.")
        return ledger.relation
    finally:
        ledger.close()


def _training(asked: Asked, preset: Preset, sets: Sets, augment: CropFlip | None) -> TrainingConfig:
    extended = asked.extended or 0.0
    given: dict[str, Any] = {
        "clip_norm": asked.clip_norm,
        "ema_decay": asked.ema_decay,
        "keep_last": asked.keep_last,
        "public_batch": asked.public_batch,
    }
    return TrainingConfig(
        method=_method(asked, preset, augment),
        sampling_rate=_rate(asked, preset, sets, extended),
        epochs=preset.epochs if asked.epochs is None else asked.epochs,
        learning_rate=(
            preset.learning_rate if asked.learning_rate is None else asked.learning_rate
        ),
        schedule=SCHEDULES[named(SCHEDULES, asked.schedule or "constant", "--schedule")],
        warm_up=_warm_up(asked, preset, sets, augment),
        extended=extended,
        engine=_engine(asked),
        seed=asked.seed or 0,
        **{name: value for name, value in given.items() if value is not None},
    )


def _method(asked: Asked, preset: Preset, augment: CropFlip | None) -> Method:
    """The named method, with the slots that were asked for in place of its own."""
    base = preset.method(_method_name(asked), augment)
    start = augment or CropFlip()
    own = {
        name: read_slot(name, text, start)
        for name in SLOT_NAMES
        if (text := getattr(asked, name)) is not None
    }
    slots = {each.name: getattr(base, each.name) for each in fields(base)}
    method = Method(**{**slots, **own})
    if augment is None and (isinstance(method.views, Mixed) or method.views.num_views > 1):
        raise ConfigError(
            "A frozen encoder's features are computed once, so they have no views: choose "
            "--views plain, or a model that sees images."
        )
    return method


def _rate(asked: Asked, preset: Preset, sets: Sets, extended: float) -> float:
    if asked.sample_rate is not None and asked.batch_size is not None:
        raise ConfigError("Give either --batch-size or --sample-rate: one follows from the other.")
    batch_size = asked.batch_size
    if batch_size is None and asked.sample_rate is None:
        batch_size = preset.batch_size
    if batch_size is None:
        rate = preset.sampling_rate if asked.sample_rate is None else asked.sample_rate
        assert rate is not None
        return rate
    size = _two_digits(asked.declared_size)
    if size is None:
        raise ConfigError(
            f"A batch of {batch_size:g} needs the number of private images, which is private: "
            "declare it with --declared-size, or give --sample-rate."
        )
    joined = 0 if sets.public is None else num_joined(extended, len(sets.public))
    if not 0 < batch_size <= size + joined:
        raise ConfigError(
            f"--batch-size is {batch_size:g}: give a number from 1 to {size + joined:g}."
        )
    return batch_size / (size + joined)


def _warm_up(asked: Asked, preset: Preset, sets: Sets, augment: CropFlip | None) -> WarmUp | None:
    """On public rows, where there are any, unless told otherwise."""
    wanted = named(_WARM_UPS, asked.warm_up or "public", "--warm-up")
    if wanted == "none" or (asked.warm_up is None and sets.public is None):
        if asked.warm_up_epochs is not None:
            raise ConfigError("--warm-up-epochs needs --warm-up public and --public data.")
        return None
    epochs = asked.warm_up_epochs or preset.warm_up.epochs
    if asked.warm_up_epochs == 0:
        raise ConfigError("--warm-up-epochs is 0: give 1 or more, or --warm-up none.")
    return replace(preset.warm_up, epochs=epochs, augment=augment)


def _engine(asked: Asked) -> EngineName | None:
    if asked.engine is None:
        return None
    return EngineName(named({each.value: each for each in EngineName}, asked.engine, "--engine"))


def _two_digits(size: float | None) -> float | None:
    """As the hedge keeps it: more digits would say more than an owner declares."""
    if size is None:
        return None
    if not 1 <= size < float("inf"):
        raise ConfigError(f"--declared-size is {size:g}: give the number of images, 1 or more.")
    return float(f"{size:.1e}")
