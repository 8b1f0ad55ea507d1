"""One of the trials of a tuning: an ordinary run but for what pays for it."""

from __future__ import annotations

from dataclasses import dataclass

from privet.errors import PrivacyError
from privet.hedge import PoissonSum
from privet.privacy import PoissonSteps
from privet.recipes.training_config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a tuning decided for one of its trials, whose ledger is its own and soon forgotten.

    Args:
        steps: all steps that it may take.
        epsilon: ε of the whole tuning.
        secure_noise: whether the tuning's ledger asks for secure noise.
    """

    steps: PoissonSteps
    epsilon: float
    secure_noise: bool

    def mechanism(self, training: TrainingConfig) -> PoissonSum:
        """The mechanism of its steps; refused for settings that ask for other steps."""
        if (training.sampling_rate, training.steps) != (self.steps.sampling_rate, self.steps.steps):
            raise PrivacyError(f"A trial was paid for {self.steps}, and asks for something else.")
        return PoissonSum(
            clip_norm=training.clip_norm,
            noise_multiplier=self.steps.noise_multiplier,
            sampling_rate=self.steps.sampling_rate,
        )
