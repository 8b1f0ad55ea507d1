"""Distances of several parts, which are compared together where their sizes are the same."""

import torch

from privet.release import Cleaning, Embedding, Part, each_class, everyone
from privet.synthesis import GaussianMatching, gaussian_kl
from tests.synthesis.embeddings import CLASSES, SIZE, images, labels, pixels

WEIGHTS = {"own": 3.0, "short": 0.5}


def features(pictures):
    z = pixels(pictures)["z"]
    return {"z": z, "short": z[:, :2]}


def part(name, source, size, groups):
    return Part(name=name, source=source, size=size, groups=groups, second_weight=1.0)


def embedding():
    parts = (
        part("own", "z", SIZE, each_class(CLASSES)),
        part("short", "short", 2, each_class(CLASSES)),
        part("all", "z", SIZE, everyone(CLASSES)),
        Part(name="means", source="z", size=SIZE, groups=everyone(CLASSES)),
    )
    return Embedding(features=features, parts=parts, num_classes=CLASSES, count_weight=0.1)


def targets(of):
    with torch.no_grad():
        found, _ = of.moments(images(60, seed=9, bright=0.4), labels(60))
    return {
        name: Cleaning(least_jitter=0.1)(each, torch.zeros(len(each.mean)))
        for name, each in found.items()
        if each.second is not None
    }


def test_it_is_the_weighted_sum_over_parts():
    of = embedding()
    goals = targets(of)
    slopes, losses = [], []
    for _ in range(2):
        pictures = images().requires_grad_()
        if losses:
            loss = GaussianMatching(of, goals, clip_norm=None, weights=WEIGHTS)(pictures, labels())
        else:
            found, _ = of.moments(pictures, labels())
            loss = sum(
                WEIGHTS.get(name, 1.0) * gaussian_kl(goal, found[name]).sum()
                for name, goal in goals.items()
            )
        losses.append(loss.detach())
        slopes.append(torch.autograd.grad(loss, pictures)[0])
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*slopes)
