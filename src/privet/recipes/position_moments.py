"""SPS and SPS+: moments of projected activations, noised, and pixels optimised to match them.

References:
    High performance differentially private fine-tuning using dataset distillation (SPS):
    Algorithms 1 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from privet.augment import to_pixels
from privet.errors import ConfigError
from privet.hedge import Hedge, NoisySum
from privet.keys import keyed
from privet.models import FeatureMaps, branches, joined
from privet.privacy import certify
from privet.recipes.choices import Situation, decided
from privet.recipes.releases import (
    Images,
    Labels,
    Matched,
    Memory,
    NoMemory,
    OnStep,
    SumOf,
    Synthetic,
    Tensors,
    balanced,
    planned_sums,
    public_encoders,
    released,
    require_labels,
    soft_labels,
    told,
)
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.recipes.turns import even, in_turn
from privet.release import (
    Embedding,
    GaussianTarget,
    Lens,
    MomentDiscriminant,
    Moments,
    Part,
    Projection,
    Seen,
    class_shares,
    everyone,
    gaussian_targets,
)
from privet.release.placing import moved, placed
from privet.synthesis import GaussianMatching, InTurn, optimised


def sps(
    hedge: Hedge,
    *,
    encoder: nn.Module | Sequence[nn.Module],
    image_shape: tuple[int, int, int],
    num_classes: int,
    count: int,
    settings: Sps | None = None,
    proportional: bool = False,
    treated_as_public: Sequence[str] | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """Make images by SPS, stage after stage: summarise, privatise, synthesise.

    The last stage matches the summaries of all stages together.

    Args:
        hedge: images and labels, with an ε reserved for all stages together.
        encoder: trained on public images, with smooth activations; stages take several in turn.
        image_shape: height, width and channels.
        num_classes: declared.
        count: how many images of each stage the next one's centre is computed from.
        settings: the method's settings; None takes the defaults.
        proportional: make classes as large as released counts say; images are taken from equally
            large classes, so that more are made than taken.
        treated_as_public: what the certificate lists as public; None lists encoders that nothing
            was paid for.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while each batch is optimised.
    """
    require_labels(hedge, num_classes)
    memory = memory or NoMemory()
    s = (settings or Sps()).chosen(Situation.behind(hedge, num_classes, image_shape)).settings
    stages = by_stage(s, encoder)
    _ = s.groups(num_classes)  # which refuses what would else be found out after the plan
    mechanisms = planned_sums(
        hedge, [each.clip_norms[stage] for stage, (_, each) in enumerate(stages)]
    )

    def sum_of(embedding: Embedding, stage: int) -> NoisySum:
        return released(hedge, embedding, mechanisms[stage], memory, f"release-{stage}")

    made = sps_matched(
        sum_of,
        s,
        encoder=encoder,
        image_shape=image_shape,
        num_classes=num_classes,
        count=count,
        proportional=proportional,
        memory=memory,
        on_step=on_step,
        device=hedge.device,
    )
    if treated_as_public is None:
        treated_as_public = public_encoders(hedge, "the encoders", len(branches(joined(encoder))))
    return made.certified(certify(hedge.reservation, public=treated_as_public))


def sps_matched(
    sum_of: SumOf,
    s: Sps,
    *,
    encoder: nn.Module | Sequence[nn.Module],
    image_shape: tuple[int, int, int],
    num_classes: int,
    count: int,
    proportional: bool = False,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
    device: torch.device | str = "cpu",
) -> Matched:
    """Optimise pixels to match the noised sums of all stages, of one hedge or of several.

    Args:
        sum_of: the noised sum of a stage through its embedding, which is centred on the images of
            the stage before.
        s: settings in which `Sps.chosen` left nothing open.
        encoder: trained on public images, with smooth activations; stages take several in turn.
        image_shape: height, width and channels.
        num_classes: declared.
        count: how many images of each stage the next one's centre is computed from.
        proportional: make classes as large as released counts say.
        memory: where finished steps are kept, so that a killed run goes on; None keeps nothing.
        on_step: called with the steps done and their total while each batch is optimised.
        device: where images are optimised.
    """
    memory, device = memory or NoMemory(), torch.device(device)
    batch_size = decided(s.per_class) * num_classes
    run = _Run(s, num_classes, image_shape, batch_size, memory, on_step, device)
    found_shares = []
    for stage, (network, own) in enumerate(by_stage(s, encoder)):
        centre = None if stage == 0 else run.images(stage - 1, math.ceil(count / batch_size))
        clip_norm = own.clip_norms[stage]
        embedding = run.embedding(network, own, stage, clip_norm, centre)
        noisy = sum_of(embedding, stage)
        targets = moved(gaussian_targets(embedding, noisy, s.cleaning), device)
        run.stages.append((embedding, targets, clip_norm))
        found_shares.append(class_shares(embedding, noisy))

    shares = torch.stack(found_shares).mean(0)
    turns = shares if proportional else even(num_classes)
    last = len(run.stages) - 1

    def batch(number: int) -> tuple[Images, Labels]:
        found = in_turn(turns, number * batch_size, batch_size)
        images = run.taken(last, found.ranks * num_classes + found.labels)
        return to_pixels(images), found.labels.numpy()

    judge = None
    if num_classes > 1 and not s.pseudo_count:
        judge = MomentDiscriminant.quadratic(*run.stages[-1][:2])
    return Matched(
        batch=batch,
        batch_size=batch_size,
        shares=shares,
        soft=None if judge is None else soft_labels(judge),
    )


def sps_plus(
    hedge: Hedge,
    *,
    encoder: nn.Module | Sequence[nn.Module],
    image_shape: tuple[int, int, int],
    num_classes: int,
    count: int,
    settings: SpsPlus | None = None,
    proportional: bool = False,
    treated_as_public: Sequence[str] | None = None,
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> Synthetic:
    """SPS with pseudo-classes and stages; arguments are those of `sps`."""
    return sps(
        hedge,
        encoder=encoder,
        image_shape=image_shape,
        num_classes=num_classes,
        count=count,
        settings=settings or SpsPlus(),
        proportional=proportional,
        treated_as_public=treated_as_public,
        memory=memory,
        on_step=on_step,
    )


def by_stage(s: Sps, encoder: nn.Module | Sequence[nn.Module]) -> list[tuple[nn.Module, Sps]]:
    """The encoder of each stage, in turn, and the settings with its layers."""
    encoders = list(branches(joined(encoder)).values())
    stages = len(decided(s.clip_ratios))
    if len(encoders) > stages:
        raise ConfigError(
            f"There are {len(encoders)} encoders and {stages} stages to take them in turn: name "
            "fewer, or give more --method clip_ratios."
        )
    turns = [encoders[stage % len(encoders)] for stage in range(stages)]
    return [(each, s.of(each)) for each in turns]


class _Run:
    """Stages that were released, and batches of images for them."""

    def __init__(
        self,
        settings: Sps,
        num_classes: int,
        image_shape: tuple[int, int, int],
        batch_size: int,
        memory: Memory,
        on_step: OnStep | None,
        device: torch.device,
    ) -> None:
        self.settings, self.num_classes, self.image_shape = settings, num_classes, image_shape
        self.batch_size, self.memory, self.on_step = batch_size, memory, on_step
        self.device = device
        self.stages: list[tuple[Embedding, dict[str, GaussianTarget], float]] = []

    def embedding(
        self,
        encoder: nn.Module,
        own: Sps,
        stage: int,
        clip_norm: float,
        centre: tuple[Tensor, Tensor] | None,
    ) -> Embedding:
        """Make the embedding of one stage, around the moments of the last stage's images."""
        made = partial(
            sps_embedding, encoder, own, self.image_shape, self.num_classes, stage, clip_norm
        )
        plain = placed(made(), self.device)
        if centre is None:
            return plain
        images, labels = centre
        with torch.no_grad():
            found, _ = plain.moments(images.to(self.device), labels.to(self.device))
        return placed(made(found), self.device)

    def images(self, stage: int, batches: int) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a stage's first batches."""
        names = [_name(stage, number) for number in range(batches)]
        found = self.memory.every(names, partial(self._made, stage))
        images = torch.cat([each["images"] for each in found])
        labels = [balanced(self.batch_size, self.num_classes, each) for each in range(batches)]
        return images, torch.cat(labels)

    def taken(self, stage: int, places: Tensor) -> Tensor:
        """A stage's images at some places of its set, in which classes take turns."""
        numbers, rows = places // self.batch_size, places % self.batch_size
        which, inside = numbers.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        batches = torch.stack([self.batch(stage, number) for number in which.tolist()])
        return batches[inside, rows]

    def batch(self, stage: int, number: int) -> Tensor:
        """One batch, which depends on the releases, the seed and its number alone."""
        make = partial(self._made, stage, number)
        return self.memory.once(_name(stage, number), make)["images"]

    def _made(self, stage: int, number: int) -> Tensors:
        return {"images": self._optimised(stage, number).cpu()}

    def _optimised(self, stage: int, number: int) -> Tensor:
        s = self.settings
        generator = keyed(s.seed, stage, number)
        height, width, channels = self.image_shape
        config = s.optimisation(stage)
        if stage:
            start = self.batch(stage - 1, number)
        else:
            start = torch.randn(self.batch_size, channels, height, width, generator=generator)
        losses = [
            GaussianMatching(
                embedding,
                targets,
                clip_norm=clip_norm,
                weights={name: s.class_weight for name in targets if name.endswith("class")},
                decay=s.decay,
            )
            for embedding, targets, clip_norm in self.stages[: stage + 1]
        ]
        start = start.to(self.device)
        labels = balanced(self.batch_size, self.num_classes, number).to(self.device)
        tell = told(self.on_step, config.iterations)
        return optimised(start, labels, InTurn(losses), config, generator=generator, on_step=tell)


def _name(stage: int, number: int) -> str:
    return f"stage-{stage}-batch-{number:05d}"


def sps_embedding(
    encoder: nn.Module,
    s: Sps,
    image_shape: tuple[int, int, int],
    num_classes: int,
    stage: int,
    clip_norm: float,
    centre: dict[str, Moments] | None = None,
) -> Embedding:
    """Make a stage's embedding: moments of randomly projected positions, global and by class."""
    maps = FeatureMaps(encoder, list(s.layers))
    height, width, channels = image_shape
    widths = {
        name: each.shape[1] for name, each in maps(torch.zeros(1, channels, height, width)).items()
    }
    generator = torch.Generator().manual_seed(s.seed + stage)
    lenses, parts = {}, []
    for kind, layers, size in (
        ("all", s.layers, decided(s.global_size)),
        ("class", s.layers[-decided(s.class_layers) :], decided(s.class_size)),
    ):
        scale = s.class_scale if kind == "class" else 1.0
        groups = s.groups(num_classes) if kind == "class" else everyone(num_classes)
        for layer in layers:
            name = f"{layer}-{kind}".replace(".", "_")
            projection = Projection.random(widths[layer], size, generator)
            lenses[name] = Lens(layer=layer, grid=0, projection=projection)
            parts.append(
                Part(
                    name=name,
                    source=name,
                    size=size,
                    groups=groups,
                    mean_weight=scale,
                    second_weight=scale,
                    centre=None if centre is None else centre[name],
                )
            )
    return Embedding(
        features=Seen(maps, lenses),
        parts=tuple(parts),
        num_classes=num_classes,
        count_weight=s.count_share * clip_norm,
    )
