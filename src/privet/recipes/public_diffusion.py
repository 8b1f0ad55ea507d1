"""What diffusion models of public images have in common: a U-Net, its lessons, images by number.

No private row is touched, and nothing is private: a diffusion model of a few images repeats some of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from privet.augment import to_pixels
from privet.errors import ConfigError, DataError
from privet.keys import keyed, seeded
from privet.models import DenoisingUNet
from privet.public import DiffusionTraining, PublicRows, train_at_noise_levels
from privet.public.diffusion import Task
from privet.recipes.model import ImageShape
from privet.recipes.releases import Drawn, Images, Kept, Labels, Memory, OnStep, balanced, told

Progress = Callable[[str], OnStep]
"""From the name of what is trained to what is told of its steps."""

Sample = Callable[[Tensor, Sequence[int]], Tensor]
"""From labels and numbers of images to images (N, C, H, W) in [-1, 1]."""


@dataclass(frozen=True, kw_only=True)
class PublicDiffusion:
    """Settings of a diffusion model of public images, by default of a size for a CPU.

    Args:
        widths: channels of the U-Net at each resolution.
        blocks: residual blocks at each resolution.
        dropout: dropout rate of residual blocks.
        training: how the U-Net is trained.
        at_once: images that are drawn together.
        seed: the seed of first weights and of images.
    """

    widths: tuple[int, ...] = (24, 48, 64)
    blocks: int = 1
    dropout: float = 0.1
    training: DiffusionTraining = field(default_factory=DiffusionTraining)
    at_once: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.at_once, self.blocks) < 1:
            raise ConfigError("at_once and blocks must be 1 or more.")

    def first_weights(self, num_classes: int, image_shape: ImageShape) -> nn.Module:
        """Make the U-Net as it is before it has learned anything."""
        height, width, channels = image_shape
        with seeded(keyed(self.seed)):
            return DenoisingUNet(
                num_classes,
                channels,
                image_size=(height, width),
                widths=self.widths,
                blocks=self.blocks,
                dropout=self.dropout,
                augmentations=0 if self.training.augment is None else self.training.augment.size,
            )

    def batch(self, number: int, num_classes: int, sample: Sample) -> tuple[Images, Labels]:
        """Draw one batch of images with labels; images are numbered through all batches."""
        labels = balanced(self.at_once, num_classes, number)
        numbers = range(number * self.at_once, (number + 1) * self.at_once)
        return to_pixels(sample(labels, numbers)), labels.numpy()

    def drawn(self, num_classes: int, sample: Sample) -> Drawn:
        """Return what draws as many images as one likes, by `sample`."""
        return Drawn(
            batch=lambda number: self.batch(number, num_classes, sample), batch_size=self.at_once
        )


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """Trains networks at noise levels, each of them once.

    Args:
        seed: the seed of all that is random.
        memory: where trained networks are kept, so that a killed run goes on.
        progress: gives a listener for the steps of each training, by its name; None tells nobody.
    """

    seed: int
    memory: Memory
    progress: Progress | None

    def __call__(self, name: str, task: Task, rows: PublicRows, config: DiffusionTraining) -> None:
        """Train a network, or load it if it was trained before.

        It ends with averaged weights, in evaluation mode.
        """

        def train() -> dict[str, Tensor]:
            on_step = None if self.progress is None else self.progress(name)
            train_at_noise_levels(
                task,
                rows,
                config,
                seed=self.seed,
                on_step=told(on_step, config.iterations),
                checkpoint=Kept(self.memory, name),
            )
            return dict(task.network.state_dict())

        learned = self.memory.once(name, train)
        try:
            task.network.load_state_dict(learned)
        except RuntimeError:
            raise DataError(
                f"What the run keeps of its {name} is of another network or version: remove it "
                "from the run's steps, and it is made again."
            ) from None
        task.network.eval()


def image_shape_of(public: PublicRows, num_classes: int) -> ImageShape:
    """Return height, width and channels; refuse rows without images of every class."""
    if public.inputs.ndim != 4 or public.inputs.dtype != torch.uint8:
        raise DataError("A diffusion model is made of images, and the public rows are features.")
    counts = torch.bincount(public.targets, minlength=num_classes)
    if len(counts) > num_classes:
        raise DataError(f"Public labels go beyond the {num_classes} classes.")
    if not counts.all():
        missing = int((counts == 0).nonzero()[0])
        raise DataError(
            f"No public image is of class {missing}, of which images would be drawn: give some, or "
            "declare fewer classes."
        )
    _, height, width, channels = public.inputs.shape
    return height, width, channels
