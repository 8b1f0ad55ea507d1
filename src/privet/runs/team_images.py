"""Batches of images by several processes: dealt out, gathered, and the same whoever makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from safetensors.numpy import load, save

from privet.hedge import Processes, Team
from privet.recipes.releases import Drawn, Images, Labels
from privet.runs.team_memory import rounds


def dealt(drawn: Drawn, numbers: Sequence[int], team: Team) -> Iterator[tuple[Images, Labels]]:
    """As the leader, yield some batches in order, of which everyone makes one at a time."""
    for turn in rounds(numbers, team.size):
        team.tell(json.dumps(list(turn)).encode())
        yield drawn.batch(turn[0])
        for rank in range(1, len(turn)):
            assert isinstance(team, Processes)
            found = load(team.given_by(rank))
            yield found["images"], found["labels"]


def help_with_images(drawn: Drawn, team: Processes) -> None:
    """As a helper, make one batch of each round, until there are no more."""
    while (word := team.told()) is not None:
        turn = json.loads(word)
        if team.rank < len(turn):
            images, labels = drawn.batch(turn[team.rank])
            team.give(save({"images": images, "labels": labels}))
