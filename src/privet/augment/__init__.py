"""Views of an example: pixels as numbers, crops and flips, mixtures."""

from privet.augment.auto import auto_augmented
from privet.augment.crop_flip import CropFlip
from privet.augment.curriculum import CropCurriculum
from privet.augment.mixup import beta, cut_pairs, mix_pairs
from privet.augment.non_leaking import NonLeaking
from privet.augment.pixels import to_float, to_pixels

__all__ = [
    "CropCurriculum",
    "CropFlip",
    "NonLeaking",
    "auto_augmented",
    "beta",
    "cut_pairs",
    "mix_pairs",
    "to_float",
    "to_pixels",
]
