"""Three small parties, and a server that asks them without a network in between."""

import numpy as np

from privet.federate import Ask, Party, Reply, Server, answer
from tests.recipes.small import CLASSES, pictures

METHOD = "sps-g:early=3,middle=3,deep=0,pixels=3,shared=0,everywhere=2,iterations=2,batch_size=30"
STAGED = (
    "sps-plus:global_size=3,class_size=3,clip_ratios=0.1-0.1,pseudo_count=0,per_class=10,"
    "iterations=2,later_iterations=1"
)
ENCODER = "untrained:width=8,groups=4"
SIZES = {"ant": 30, "bee": 45, "cow": 24}


def write(path, columns, classes=CLASSES):
    np.savez(path, **columns, class_names=np.array([str(each) for each in range(classes)]))
    return str(path)


def columns_of(name):
    """A party's own images; the last one has none of the first class."""
    found = pictures(SIZES[name], seed=10 + list(SIZES).index(name))
    if name == "cow":
        rows = found["labels"] > 0
        found = {key: each[rows] for key, each in found.items()}
    return found


def parties_in(folder, **more):
    public = write(folder / "public.npz", pictures(80, seed=1))
    return {
        name: party_in(folder, name, public=public, epsilon=epsilon, **more)
        for name, epsilon in zip(SIZES, (2.0, 5.0, 1.0), strict=True)
    }


def party_in(folder, name, **more):
    data = write(folder / f"{name}.npz", columns_of(name))
    settings = {"delta": 1e-5, "relation": "add-remove", "encoder": ENCODER, **more}
    return Party(name=name, data=data, out=str(folder / name), **settings)


def server_in(folder, **more):
    settings = {"method": METHOD, "count": 30, "parties": 3, "declared_size": 90, **more}
    return Server(
        out=str(folder / "server"),
        public=str(folder / "public.npz"),
        encoder=ENCODER,
        epsilon=2.0,
        delta=1e-5,
        seconds=60,
        **settings,
    )


class Audience:
    def __init__(self):
        self.notes = []

    def note(self, sentence):
        self.notes.append(sentence)

    def progress(self, name):
        return lambda done, total: None


def directly(parties, *, change=None, silent=None, notes=None):
    """Every message as it would travel: as words and tensors.

    Args:
        parties: by the names of their nodes.
        change: what becomes of an answer on its way.
        silent: how often a node still says nothing.
        notes: what parties say to their owners.
    """
    silent, asked = dict(silent or {}), []

    def ask_all(ask, nodes):
        chosen = list(parties) if nodes is None else nodes
        found = []
        for node in chosen:
            asked.append((node, ask.stage))
            received = Ask.read(ask.words(), ask.tensors())
            note = (notes if notes is not None else []).append
            made = answer(parties[node], received, note)
            made = made if change is None else change(made, ask)
            if ask.stage >= 0 and silent.get(node):  # it answers, and nobody hears it
                silent[node] -= 1
                found.append(Reply(node))
            else:
                found.append(Reply(node, made))
        return found

    ask_all.asked = asked
    return ask_all
