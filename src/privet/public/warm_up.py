"""Ordinary training on public data, before a private row is touched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.augment import CropFlip, auto_augmented, beta, cut_pairs, mix_pairs, to_float
from privet.errors import ConfigError
from privet.keys import seeded
from privet.optim import Schedule, Sharpness, cosine
from privet.optim.sharpness import gradient_of
from privet.public.adversary import Adversary
from privet.public.rows import PublicRows


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """How to train; the defaults are those for CIFAR-10 in Table 12 of IDS.

    Args:
        epochs: passes over the public rows.
        batch_size: the most rows in a step.
        learning_rate: at its highest; the schedule multiplies it.
        momentum: of SGD; Adam has its own.
        weight_decay: added to the gradient, as a multiple of the weights.
        optimizer: SGD, or plain Adam.
        schedule: the factor of the learning rate over all steps.
        augment: the one view of each image in each epoch; None for features.
        mixup_alpha: mix pairs of public rows with weights from Beta(alpha, alpha); 0 for none.
        label_smoothing: the share of every label that is spread over all classes.
        auto_augment: draw views by AutoAugment's policies, before `augment`.
        cutmix: put a part of another image into each, and mix labels alike (Yun et al., 2019).
        sharpness: how to look for flat minima; `None` steps along the plain gradient.
        adversary: train on adversarial views in the place of plain ones; `None` does not.
    """

    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    optimizer: Literal["sgd", "adam"] = "sgd"
    schedule: Schedule = field(default_factory=cosine)
    augment: CropFlip | None = field(default_factory=CropFlip)
    mixup_alpha: float = 0.0
    label_smoothing: float = 0.0
    auto_augment: bool = False
    cutmix: bool = False
    sharpness: Sharpness | None = None
    adversary: Adversary | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ConfigError(
                f"epochs is {self.epochs} and batch_size is {self.batch_size}; give 1 or more."
            )
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(f"learning_rate is {self.learning_rate:g}; give a number above 0.")
        for name in ("momentum", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name):g}; give 0 to below 1.")
        for name in ("weight_decay", "mixup_alpha"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name):g}; give 0 or more.")
        if self.optimizer not in ("sgd", "adam"):
            raise ConfigError(f"optimizer is {self.optimizer!r}; give 'sgd' or 'adam'.")


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """Mean loss and accuracy over the views of one epoch, as they were trained on.

    Under a `Lesson` there is no accuracy, and it is 0.
    """

    loss: float
    accuracy: float


class Lesson(Protocol):
    """What a network learns from public rows, where it is not the class of each."""

    def view(self, rows: PublicRows, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """What the network sees of rows, and what it should answer."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each row."""


OnEpoch = Callable[[int, EpochRecord], None]
Preprocess = Callable[[Tensor], Tensor]


def warm_up(
    model: nn.Module,
    public: PublicRows,
    config: WarmUp,
    *,
    generator: torch.Generator,
    preprocess: Preprocess = to_float,
    on_epoch: OnEpoch | None = None,
    head: nn.Module | None = None,
    lesson: Lesson | None = None,
) -> list[EpochRecord]:
    """Train, in place, the parameters that require a gradient.

    Parts whose parameters are all frozen stay in evaluation mode, so that running statistics of a
    frozen encoder stay what they are. The global random state is left as it was.

    Args:
        model: from preprocessed inputs to logits.
        public: what to train on.
        config: how to train.
        generator: all randomness comes from it, that of dropout layers included.
        preprocess: from a batch of public inputs to what `augment` and the model take.
        on_epoch: told the number of each epoch, from 0, and its record.
        head: from the model's outputs to logits, for an encoder that has none; trained with it.
        lesson: what to learn in the place of classes; `preprocess` is then not used.
    """
    network = model if head is None else nn.Sequential(model, head)
    with _modes_kept(network):
        run = _Run(network, public, config, preprocess, generator, lesson)
        history = []
        for epoch in range(config.epochs):
            with seeded(generator):
                record = run.epoch(epoch)
            history.append(record)
            if on_epoch is not None:
                on_epoch(epoch, record)
    run.optimizer.zero_grad()
    return history


class _Run:
    """What stays the same over all epochs of a warm-up."""

    def __init__(
        self,
        network: nn.Module,
        public: PublicRows,
        config: WarmUp,
        preprocess: Preprocess,
        generator: torch.Generator,
        lesson: Lesson | None,
    ) -> None:
        self.network, self.public, self.config = network, public, config
        self.preprocess, self.generator, self.lesson = preprocess, generator, lesson
        self.parameters = {
            name: each for name, each in network.named_parameters() if each.requires_grad
        }
        self.optimizer = _optimizer(list(self.parameters.values()), config)
        self.device = next(network.parameters()).device
        self.num_classes = self._num_classes() if lesson is None else 0

    def epoch(self, epoch: int) -> EpochRecord:
        """One pass over the rows in a new order."""
        _train_mode(self.network)  # a callback may have evaluated it
        loss_sum, correct = 0.0, 0
        batches = self._batches()
        for number, rows in enumerate(batches):
            step, total = epoch * len(batches) + number, self.config.epochs * len(batches)
            rate = self.config.learning_rate * self.config.schedule(step, total)
            inputs, labels = self._view(rows)
            loss, logits = self._step(inputs, labels, rate)
            loss_sum += loss * len(rows)
            if self.lesson is None:
                correct += int((logits.argmax(1) == labels.argmax(1)).sum())
        return EpochRecord(loss=loss_sum / len(self.public), accuracy=correct / len(self.public))

    def _batches(self) -> tuple[Tensor, ...]:
        """Rows in a new order, in batches as even as can be: BatchNorm cannot train on one row."""
        count, device = len(self.public), self.generator.device
        order = torch.randperm(count, generator=self.generator, device=device)
        return torch.tensor_split(order, math.ceil(count / self.config.batch_size))

    def _view(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What the network sees of those rows, and label probabilities."""
        batch, config = self.public.select(rows).to(self.device), self.config
        if self.lesson is not None:
            return self.lesson.view(batch, self.generator)
        inputs = self.preprocess(batch.inputs)
        if config.auto_augment:
            inputs = auto_augmented(inputs, self.generator)
        if config.augment is not None:
            inputs = config.augment(inputs, 1, self.generator)
        labels = F.one_hot(batch.targets, self.num_classes).to(inputs.dtype)
        # The rows of a batch are in random order, so a neighbour is a random partner.
        if config.cutmix:
            other = inputs.roll(1, 0), labels.roll(1, 0)
            inputs, labels = cut_pairs(inputs, other[0], labels, other[1], self.generator)
        if config.mixup_alpha:
            weight = beta(config.mixup_alpha, (len(rows),), self.generator)
            other = inputs.roll(1, 0), labels.roll(1, 0)
            inputs, labels = mix_pairs(inputs, other[0], labels, other[1], weight)
        return inputs, labels

    def _step(self, inputs: Tensor, labels: Tensor, rate: float) -> tuple[float, Tensor]:
        """One update; the loss and the logits before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.config.adversary is not None:
            inputs = self.config.adversary(
                inputs, lambda x: self._loss(self.network(x), labels), self.generator
            )
        logits: Tensor = self.network(inputs)
        loss = self._loss(logits, labels)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(
                f"the warm-up loss is {value}; lower the learning rate from "
                f"{self.config.learning_rate:g}."
            )
        self._go(gradient_of(loss, self.parameters), inputs, labels)
        return value, logits.detach()

    def _go(self, gradient: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> None:
        if self.config.sharpness is not None:
            gradient = self.config.sharpness.gradient(
                self.network,
                gradient,
                lambda: gradient_of(self._loss(self.network(inputs), labels), self.parameters),
            )
        for name, parameter in self.parameters.items():
            parameter.grad = gradient[name]
        self.optimizer.step()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.lesson is not None:
            return self.lesson.loss(logits, labels).mean()
        return F.cross_entropy(logits, labels, label_smoothing=self.config.label_smoothing)

    def _num_classes(self) -> int:
        """The number of logits, which must cover the labels."""
        if len(self.public) == 0:
            raise ConfigError("there are 0 public rows; give at least 1 to warm up on.")
        first = self.public.inputs[:1].to(self.device)
        with torch.no_grad():
            logits = self.network.eval()(self.preprocess(first))
        most = int(self.public.targets.max())
        if logits.ndim != 2 or logits.shape[1] <= most:
            raise ConfigError(
                f"public labels go up to {most} and the model's outputs have shape "
                f"{tuple(logits.shape)}; give (N, classes) that cover them, or use warm_up_body."
            )
        return int(logits.shape[1])


def _optimizer(parameters: list[nn.Parameter], config: WarmUp) -> torch.optim.Optimizer:
    if not parameters:
        raise ConfigError("no parameter of the model requires a gradient; unfreeze some.")
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
    return torch.optim.SGD(parameters, lr=rate, momentum=config.momentum, weight_decay=decay)


def _train_mode(network: nn.Module) -> None:
    network.train()
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            module.eval()


@contextmanager
def _modes_kept(network: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in network.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
