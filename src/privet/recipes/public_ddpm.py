"""Public images from public images: DDPM, the baseline (DOPE-SGD, §3.1 and Appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from privet.public import Ancestral, Ddpm, DiffusionTraining, PublicRows
from privet.recipes.public_diffusion import Progress, PublicDiffusion, Teaching, image_shape_of
from privet.recipes.releases import Drawn, Memory, NoMemory


@dataclass(frozen=True, kw_only=True)
class PublicDdpm(PublicDiffusion):
    """Settings of a DDPM of public images, which are not augmented.

    Args:
        sampler: how images are drawn.
    """

    training: DiffusionTraining = field(default_factory=lambda: DiffusionTraining(augment=None))
    sampler: Ancestral = field(default_factory=Ancestral)


def ddpm(
    public: PublicRows,
    *,
    num_classes: int,
    settings: PublicDdpm | None = None,
    memory: Memory | None = None,
    progress: Progress | None = None,
    device: torch.device | None = None,
) -> Drawn:
    """Train a DDPM on public images, and return what draws as many others as one likes.

    Args:
        public: images, each of whose classes has some.
        num_classes: the number of classes of the labels; 1 for images without labels.
        settings: every setting; None takes the defaults.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        progress: gives a listener for the steps of each training, by its name; None tells nobody.
        device: where the network lies; None is the CPU.
    """
    s, shape = settings or PublicDdpm(), image_shape_of(public, num_classes)
    teach = Teaching(seed=s.seed, memory=memory or NoMemory(), progress=progress)
    model = Ddpm(s.first_weights(num_classes, shape)).to(device)
    teach("diffusion", model, public, s.training)

    def sample(labels: Tensor, numbers: Sequence[int]) -> Tensor:
        return s.sampler(model, labels, shape, numbers, seed=s.seed)

    return s.drawn(num_classes, sample)
