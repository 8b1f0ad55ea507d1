"""Where the settings of a release start from: what is chosen here, or what papers print.

`paper` is for large GPUs: Tables 9 to 11 and section D.2 of SPS, for SPS and SPS+; Tables 7 and 8
and section B.1 of DP-MEPF, for DP-MEPF and DP-MERF. The row of the nearest ε counts, and
the data set whose images and classes are most like those at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.recipes.choices import Chosen, Situation
from privet.recipes.generators import usual_generator
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.sps_settings import STAGES, Sps, SpsPlus, most_pseudo_classes
from privet.recipes.synthesis_methods import System
from privet.release import Cleaning
from privet.synthesis import GeneratorTraining

Preset = Callable[[System, Situation, float], Chosen[System]]

# SPS, Table 10: D_G and D_C by ε.
_Sizes = Mapping[float, tuple[int, int]]
_CIFAR10: _Sizes = {1: (192, 192), 2: (256, 256), 4: (512, 512), 8: (512, 512)}
_CIFAR100: _Sizes = {1: (128, 32), 2: (128, 32), 4: (256, 48), 8: (512, 64)}
_CIFAR10_PLUS: _Sizes = {1: (192, 192), 2: (256, 256), 4: (384, 384), 8: (512, 512)}
_CIFAR100_PLUS: _Sizes = {1: (96, 96), 2: (128, 128), 4: (192, 192), 8: (256, 256)}

# DP-MEPF, Table 7: learning rates of the generator and of the average, by ε; with φ₂ and without.
_Rates = Mapping[float, tuple[float, float]]
_MNIST: _Rates = {1: (1e-5, 1e-4)}
_CELEBA64: _Rates = {
    **dict.fromkeys((10, 5), (3e-4, 1e-4)),
    **dict.fromkeys((2, 1), (3e-4, 1e-3)),
    **dict.fromkeys((0.5, 0.2), (1e-3, 1e-3)),
}
_CELEBA64_FIRST: _Rates = {
    **dict.fromkeys((10, 5, 2, 1), (3e-4, 3e-4)),
    **dict.fromkeys((0.5, 0.2), (1e-3, 1e-3)),
}
_LABELLED: _Rates = {
    **dict.fromkeys((10, 5), (1e-3, 3e-4)),
    **dict.fromkeys((2, 1, 0.5, 0.2), (1e-3, 1e-2)),
}
_LABELLED_FIRST: _Rates = {**_LABELLED, **dict.fromkeys((10, 5), (1e-3, 1e-4))}
_UNLABELLED: _Rates = {1: (1e-3, 1e-3)}


def auto(system: System, situation: Situation, epsilon: float) -> Chosen[System]:
    """Leave the settings as they are: what is None will be chosen."""
    return Chosen(system, ())


def paper(system: System, situation: Situation, epsilon: float) -> Chosen[System]:
    """Take the published settings for the nearest ε."""
    if isinstance(system, SpsG):
        raise ConfigError("No paper has SPS-G: leave --preset out, or choose another --method.")
    if isinstance(system, Sps):
        return _sps(system, situation, epsilon)
    return _mean_embedding(system, situation, epsilon)


def _sps(system: Sps, situation: Situation, epsilon: float) -> Chosen[System]:
    many, plus = situation.num_classes >= 100, isinstance(system, SpsPlus)
    tables = (_CIFAR10, _CIFAR100, _CIFAR10_PLUS, _CIFAR100_PLUS)
    table = tables[2 * plus + many]
    nearest = _nearest(table, epsilon)
    global_size, class_size = table[nearest]
    settings = replace(
        system,
        global_size=global_size,
        class_size=class_size,
        class_layers=5 if plus and many and nearest == 8 else 3,
        clip_ratios=(1 / 16 if many else 1 / 8,),
        iterations=1000,
        later_iterations=500,
        per_class=max(1, round(200 / situation.num_classes)),
        view=CropCurriculum(),
        cleaning=Cleaning(),
    )
    if plus:
        settings = _grouped(settings, situation.num_classes)
    source = f"CIFAR-{100 if many else 10} at ε = {nearest:g}"
    return Chosen(settings, (f"Settings are those of the SPS paper for {source}.",))


def _grouped(settings: Sps, classes: int) -> Sps:
    """Choose pseudo-classes as in D.2.1, and as many stages as in section 5.4."""
    many = classes >= 100
    per_pseudo = 10 if many else 2
    count = most_pseudo_classes(classes, per_pseudo, (2 if many else 4) * classes)
    return replace(
        settings,
        pseudo_count=count if count > classes else 0,  # two classes cannot be grouped (5.3)
        per_pseudo=per_pseudo,
        clip_ratios=STAGES[: 4 if many else 2],
    )


def _mean_embedding(
    system: DpMerf | DpMepf, situation: Situation, epsilon: float
) -> Chosen[System]:
    """Take the settings of DP-MEPF's paper, whose learning rates do not fall."""
    side, _, channels = situation.image_shape
    grey = channels == 1
    second = system.second if isinstance(system, DpMepf) else True
    if grey:
        source, rates = "MNIST", _MNIST
    elif situation.num_classes > 1:
        source, rates = "labelled CIFAR-10", _LABELLED if second else _LABELLED_FIRST
    elif side > 32:
        source, rates = "CelebA", _CELEBA64 if second else _CELEBA64_FIRST
    else:
        source, rates = "unlabelled CIFAR-10", _UNLABELLED
    nearest = _nearest(rates, epsilon)
    generator_rate, average_rate = rates[nearest]
    training = GeneratorTraining(
        iterations=100_000 if grey else 200_000,
        per_class=max(1, round((100 if grey else 128) / situation.num_classes)),
        learning_rate=generator_rate,
        steady=1.0,
    )
    settings = replace(
        system,
        training=training,
        average_rate=average_rate,
        generator="code" if grey else usual_generator(situation.image_shape),
        latent=5 if grey else 100,
        width=50 if side == 64 else 64,
    )
    if isinstance(settings, DpMerf) and not grey:
        settings = replace(settings, size=50_000, length_scale=1000**0.5)  # σ is a variance there
    at = f" at ε = {nearest:g}" if len(rates) > 1 else ""
    return Chosen(settings, (f"Settings are those of the DP-MEPF paper for {source}{at}.",))


def _nearest(table: Mapping[float, object], epsilon: float) -> float:
    return min(table, key=lambda each: abs(each - epsilon))


PRESETS: Mapping[str, Preset] = {"auto": auto, "paper": paper}
