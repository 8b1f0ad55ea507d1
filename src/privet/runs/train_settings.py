"""From what was asked for to a complete configuration: a preset fills what was left out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.learn import AsIs, EngineName, Method
from privet.public import WarmUp
from privet.recipes.model import Model
from privet.recipes.models import MODELS
from privet.recipes.presets import METHODS, PRESETS, SCHEDULES, Preset, augmentation, named
from privet.recipes.row_kinds import ImageRows, RowKind, TextRows
from privet.recipes.slots import SLOT_NAMES, model_text, read_slot, slot_text
from privet.recipes.training import num_joined
from privet.recipes.training_config import TrainingConfig
from privet.recipes.warm_ups import warm_up_steps, warm_up_views
from privet.runs.run_terms import terms_of
from privet.runs.run_words import two_digits
from privet.runs.sets import Sets
from privet.runs.train_config import Asked, RunConfig, read_model

SYNTHETIC = "synthetic"
_WARM_UPS = ("none", "public", SYNTHETIC)
_SCENARIOS = {
    "cold": ("none", 0.0),
    "cold-extended": ("none", 1.0),
    "warm": ("public", 0.0),
    "warm-syn": (SYNTHETIC, 0.0),
    "extended": ("public", 1.0),
}
Value = TypeVar("Value")


def resolved(
    asked: Asked,
    rows: RowKind,
    sets: Sets[Any],
    *,
    seeded: bool,
    release: float | None = None,
) -> RunConfig:
    """Complete the configuration: what was asked for, and the preset's settings elsewhere."""
    asked = _in_scenario(asked)
    preset = rows.suited(preset_of(asked, sets.private.num_classes))
    model = read_model(asked.model or preset.model)
    _check_model(model, rows)
    if not model.sees_inputs:
        preset = preset.on_features()
    augment = augmentation(rows.shape) if isinstance(rows, ImageRows) else CropFlip()
    training = _training(asked, preset, sets, augment)
    _check_words(asked, rows)
    _check_users(asked)
    _check_views(model, rows, training.method)
    return RunConfig(
        method=_method_name(asked),
        rows=rows,
        class_names=sets.private.class_names or (),
        model=model,
        training=training,
        release=release,
        diagnostics=bool(asked.diagnostics),
        **terms_of(asked, sets.aside, seeded=seeded),
    )


def preset_of(asked: Asked, num_classes: int) -> Preset:
    """Make the preset that was asked for, or the usual one, for this ε and so many classes."""
    make = PRESETS[named(PRESETS, asked.preset or "cpu", "--preset")]
    return make(asked.budget.epsilon, num_classes)


def _in_scenario(asked: Asked) -> Asked:
    """Fill in the warm-up and the share of joining rows that a paper's column stands for."""
    if asked.scenario is None:
        return asked
    warm_up, extended = _SCENARIOS[named(_SCENARIOS, asked.scenario, "--scenario")]
    if asked.scenario == "extended" and (asked.synthetic or asked.release) is not None:
        warm_up = SYNTHETIC  # as IDS has it; DOPE-SGD makes none
    if (asked.warm_up or warm_up) != warm_up:
        raise ConfigError(
            f"--scenario {asked.scenario} has --warm-up {warm_up}, not {asked.warm_up}: give one "
            "of both."
        )
    if asked.extended is not None and bool(asked.extended) != bool(extended):
        raise ConfigError(
            f"--scenario {asked.scenario} has --extended {extended:g}, not {asked.extended:g}: "
            "give one of both."
        )
    return replace(
        asked, warm_up=_or(asked.warm_up, warm_up), extended=_or(asked.extended, extended)
    )


def _method_name(asked: Asked) -> str:
    if asked.method is None:
        raise ConfigError(f"Give --method: {', '.join(METHODS)}.")
    return named(METHODS, asked.method, "--method")


def _training(asked: Asked, preset: Preset, sets: Sets[Any], augment: CropFlip) -> TrainingConfig:
    warm_up = _warm_up(asked, preset, sets, augment)
    taught = warm_up is not None and (sets.public_classes is None or sets.synthetic is not None)
    learning_rate = preset.learning_rate * (preset.gentle if taught else 1.0)
    return TrainingConfig(
        method=_method(asked, preset, augment),
        sampling_rate=_rate(asked, preset, sets),
        epochs=_or(asked.epochs, preset.epochs),
        clip_norm=_or(asked.clip_norm, preset.clip_norm),
        learning_rate=_or(asked.learning_rate, learning_rate),
        schedule=SCHEDULES[named(SCHEDULES, asked.schedule or "constant", "--schedule")],
        ema_decay=_or(asked.ema_decay, preset.ema_decay),
        keep_last=_or(asked.keep_last, 0),
        public_batch=_or(asked.public_batch, preset.public_batch),
        warm_up=warm_up,
        synthetic_warm_up=warm_up is not None and _warm_up_rows(asked, sets) == SYNTHETIC,
        extended=_extended(asked),
        engine=_engine(asked),
        seed=_or(asked.seed, 0),
    )


def _or(asked: Value | None, usual: Value) -> Value:
    return usual if asked is None else asked


def _method(asked: Asked, preset: Preset, augment: CropFlip) -> Method:
    """The named method, with the slots that were asked for in place of its own."""
    base = preset.method(_method_name(asked), augment)
    own = {
        name: read_slot(name, text, augment)
        for name in SLOT_NAMES
        if (text := getattr(asked, name)) is not None
    }
    slots = {each.name: getattr(base, each.name) for each in fields(base)}
    return Method(**{**slots, **own})


def _check_model(model: Model, rows: RowKind) -> None:
    fits = rows.noun in model.takes
    if isinstance(rows, TextRows) and getattr(model, "causal", rows.causal) != rows.causal:
        raise ConfigError("--model lm is for --task lm, and mlm for mlm: give both alike.")
    if not fits:
        fitting = [
            name for name, kind in MODELS.items() if rows.noun in getattr(kind.cls, "takes", ())
        ]
        raise ConfigError(
            f"--model {model_text(model)} cannot learn from {rows.noun}: choose "
            f"{' or '.join(fitting)}."
        )


def _check_words(asked: Asked, rows: RowKind) -> None:
    """Refuse for words what looks at single classes, or moves inputs by a little."""
    if not rows.words:
        return
    if asked.diagnostics:
        raise ConfigError("--diagnostics is for classifiers: leave it out for text.")
    if (asked.warm_up_steps or "").startswith("pgd"):
        raise ConfigError("--warm-up-steps pgd moves inputs, and words cannot be: choose another.")


def _check_users(asked: Asked) -> None:
    """Refuse for users what takes rows one by one.

    A user's rows are averaged, which one engine does; a public row is no user.
    """
    if asked.user is None:
        return
    if _extended(asked):
        raise ConfigError(
            "--extended lets public rows join one by one, and --user makes all rows of a user one: "
            "leave one of them out."
        )
    if asked.engine not in (None, EngineName.LOOP.value):
        raise ConfigError(
            f"--engine {asked.engine} takes single rows, and --user makes all rows of a user one: "
            "leave it out."
        )


def _check_views(model: Model, rows: RowKind, method: Method) -> None:
    if not rows.views_fit(method.views):
        told = slot_text("views", method.views).partition(":")[0]
        raise ConfigError(
            f"--views {told} makes no sense for {rows.noun}: leave it out, and choose a method "
            "other than dp-mix."
        )
    if not model.sees_inputs and not isinstance(method.views, AsIs):
        raise ConfigError(
            "A frozen encoder's features are computed once, so they have no views: choose "
            "--views plain, or a --model that sees images."
        )


def _rate(asked: Asked, preset: Preset, sets: Sets[Any]) -> float:
    if asked.sample_rate is not None and asked.batch_size is not None:
        raise ConfigError("Give either --batch-size or --sample-rate: one follows from the other.")
    batch_size = asked.batch_size
    if batch_size is None and asked.sample_rate is None:
        batch_size = preset.batch_size
    if batch_size is None:
        rate = _or(asked.sample_rate, preset.sampling_rate)
        assert rate is not None
        return rate
    size = two_digits(asked.declared_size)
    if size is None:
        raise ConfigError(
            f"A batch of {batch_size:g} needs the number of private examples, which is private: "
            "declare it with --declared-size, or give --sample-rate."
        )
    joined = num_joined(_extended(asked), sets.num_shared) if sets.num_shared else 0
    if not 0 < batch_size <= size + joined:
        raise ConfigError(
            f"--batch-size is {batch_size:g}: give a number from 1 to {size + joined:g}."
        )
    return batch_size / (size + joined)


def _extended(asked: Asked) -> float:
    share = _or(asked.extended, 0.0)
    if not 0 <= share <= 1:
        raise ConfigError(f"--extended is {share:g}: give a share of the public rows, 0 to 1.")
    return share


def _warm_up(asked: Asked, preset: Preset, sets: Sets[Any], augment: CropFlip) -> WarmUp | None:
    """Complete the warm-up on public rows; None if there are none, or it is not wanted."""
    wanted = _warm_up_rows(asked, sets)
    if wanted == "none":
        for name in ("warm_up_epochs", "warm_up_steps", "warm_up_augment"):
            if getattr(asked, name) is not None:
                option = "--" + name.replace("_", "-")
                raise ConfigError(f"{option} needs --warm-up public and --public data.")
        return None
    if wanted == SYNTHETIC and sets.synthetic is None:
        raise ConfigError(
            "--warm-up synthetic needs --synthetic rows: make images of public ones with privet "
            "synthesize --method edm, or of private ones with --release."
        )
    epochs = _or(asked.warm_up_epochs, preset.warm_up.epochs)
    views = warm_up_views(asked.warm_up_augment, preset.warm_up, augment)
    return replace(
        preset.warm_up, epochs=epochs, **views, **warm_up_steps(asked.warm_up_steps or "sgd")
    )


def _warm_up_rows(asked: Asked, sets: Sets[Any]) -> str:
    """Name the rows of a warm-up: those that were asked for, else all that there are."""
    if asked.warm_up is not None:
        return named(_WARM_UPS, asked.warm_up, "--warm-up")
    if sets.synthetic is not None:
        return SYNTHETIC
    return "none" if sets.public is None else "public"


def _engine(asked: Asked) -> EngineName | None:
    if asked.engine is None:
        return None if asked.user is None else EngineName.LOOP
    return EngineName(named({each.value: each for each in EngineName}, asked.engine, "--engine"))
