"""Views of an example: pixels as numbers, crops and flips, mixtures."""

from privet.augment.crop_flip import CropFlip
from privet.augment.curriculum import CropCurriculum
from privet.augment.mixup import beta, mix_pairs
from privet.augment.pixels import to_float

__all__ = ["CropCurriculum", "CropFlip", "beta", "mix_pairs", "to_float"]
