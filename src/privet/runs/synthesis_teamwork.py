"""Synthesis in several processes: what helpers do, from the leader's first word to its last."""

from __future__ import annotations

import json

from torch import Tensor

from privet.hedge import Dismissed, Helper, NoisySum, Processes
from privet.recipes.releases import Drawn
from privet.recipes.synthesis_methods import matched, release_name
from privet.release import Embedding
from privet.runs import public_synthesis
from privet.runs.encoder_cache import CachedEncoders
from privet.runs.listening import Silent
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_stage import SynthesisStage, staged
from privet.runs.team_images import help_with_images
from privet.runs.team_memory import HelpersMemory
from privet.runs.teamwork import leave_stopping_to_the_leader


def help_synthesis(team: Processes) -> None:
    """Do all that a helper does, from the leader's first word to its last."""
    leave_stopping_to_the_leader()
    word, memory = team.told(), HelpersMemory(team)
    if word is None:
        return
    body = json.loads(word)
    asked = SynthesisAsked(**body["asked"])
    try:
        if body["public"]:
            drawn: Drawn = public_synthesis.staged(asked).drawn(memory, Silent(), team.device)
        else:
            stage = staged(asked, seeded=body["seeded"], unread=body["unread"])
            drawn = _matched(stage, body["count"], memory, team)
    except Dismissed:
        return
    with memory.apart():
        help_with_images(drawn, team)


def _matched(stage: SynthesisStage, count: int, memory: HelpersMemory, team: Processes) -> Drawn:
    system, mechanisms = stage.config.system, stage.mechanisms
    encoders = CachedEncoders(memory, None, Silent().note)
    prepared = stage.prepared(count, encoders, Silent(), team.device)
    sets = stage.sets
    helper = Helper(sets.private, team, users=sets.users, device=team.device)

    def sum_of(embedding: Embedding, number: int) -> NoisySum:
        def add_up() -> dict[str, Tensor]:
            return helper.release(embedding, mechanisms[number]).blocks

        blocks = memory.paid(release_name(system, number), embedding, add_up)
        return NoisySum(blocks, mechanisms[number].noise_scale)

    return matched(system, prepared, sum_of, memory, None, team.device)
