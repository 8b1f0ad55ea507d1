"""Noised sums of disjoint rows add up, and so do the variances of their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from privet.data import ImageSet
from privet.errors import DataError, PrivacyError
from privet.federate.agreement import Agreement
from privet.federate.messages import Answer
from privet.hedge import NoisySum
from privet.privacy import Certificate, GaussianRelease
from privet.recipes.releases import Release

_ROUNDING = 1e-4  # noise on a grid is a little wider than its certificate says
IMAGES, LABELS = "images", "labels"


def added(sums: Sequence[NoisySum]) -> NoisySum:
    """Add up the noised sums of several parties.

    Args:
        sums: sums over different rows, through one embedding, each with independent noise.
    """
    first = sums[0].blocks
    blocks = {
        name: torch.stack([each[name].double() for each in sums]).sum(0).to(own.dtype)
        for name, own in first.items()
    }
    return NoisySum(blocks, math.hypot(*(each.noise_scale for each in sums)))


def checked_sum(answer: Answer, release: Release) -> NoisySum:
    """A party's sum; refused, with the party's name, if it is not what was asked for."""
    _ = checked_certificate(answer)
    found, wanted = answer.tensors, release.embedding.zeros()
    shapes = {name: each.shape for name, each in found.items()}
    for name, like in wanted.items():
        if shapes.get(name) != like.shape or found[name].dtype != like.dtype:
            got = tuple(shapes[name]) if name in shapes else "nothing"
            raise DataError(
                f"Party {answer.party!r} sent {got} for {name!r} where {tuple(like.shape)} was "
                "agreed on."
            )
        if not found[name].isfinite().all():
            raise DataError(f"Party {answer.party!r} sent {name!r} with a number that is none.")
    if shapes.keys() - wanted.keys():
        raise DataError(f"Party {answer.party!r} sent more than was agreed on.")
    return NoisySum({name: found[name] for name in wanted}, _scale(answer, release))


def _scale(answer: Answer, release: Release) -> float:
    """The noise scale of a party's sum; refused if no event of its certificate has it."""
    certificate, scale = checked_certificate(answer), answer.noise_scale
    possible = [
        each.noise_multiplier * release.clip_norm
        for each in certificate.plan.events
        if isinstance(each, GaussianRelease)
    ]
    if scale is None or not any(math.isclose(scale, each, rel_tol=_ROUNDING) for each in possible):
        raise DataError(
            f"Party {answer.party!r} names a noise scale of {scale} that is not in its certificate."
        )
    return scale


def checked_certificate(answer: Answer) -> Certificate:
    """A party's certificate; refused if its events do not cost what it says."""
    if answer.certificate is None:
        raise DataError(f"Party {answer.party!r} sent no certificate.")
    try:
        answer.certificate.check_events(f"The certificate of party {answer.party!r}")
    except PrivacyError as error:
        raise DataError(str(error)) from None
    return answer.certificate


def checked_images(answer: Answer, agreement: Agreement) -> ImageSet:
    """A party's synthetic images; refused, with its name, if they are not what was agreed."""
    _ = checked_certificate(answer)
    images, labels = answer.tensors.get(IMAGES), answer.tensors.get(LABELS)
    wanted = (agreement.count, *agreement.image_shape)
    if not _is(images, wanted, torch.uint8) or not _is(labels, wanted[:1], torch.int64):
        raise DataError(f"Party {answer.party!r} sent no {agreement.count} images of {wanted[1:]}.")
    assert images is not None
    assert labels is not None
    if not ((labels >= 0) & (labels < agreement.num_classes)).all():
        raise DataError(f"Party {answer.party!r} sent labels of no class that was agreed on.")
    return ImageSet(images.numpy(), labels.numpy(), agreement.class_names or ("images",))


def _is(found: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    return found is not None and tuple(found.shape) == shape and found.dtype == dtype
