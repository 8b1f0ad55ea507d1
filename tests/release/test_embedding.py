"""The embedding against vectors written out in full, in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import ConfigError, PrivacyError
from privet.hedge.clipping import clipped_sum
from privet.release import Embedding, Moments, Part, each_class, everyone, mean_squares
from tests.hedge.summands import flat, units

CLASSES, SIZE, LONG = 4, 5, 3
USERS = np.array([4, 1, 4, 4, 7, 1, 9, 9, 2, 4, 7, 3])
PSEUDO = torch.tensor(
    [[1.0, 0, 1, 0, 0], [1.0, 1, 0, 0, 0], [0.0, 1, 1, 1, 0], [0.0, 0, 0, 0, 0]]
)  # classes in 2, 2, 3 and no groups; a group of nobody


def features(images):
    """Vectors, few positions of many features, and many of few."""
    return {"z": images[:, 0, :SIZE], "few": images[:, :3, :SIZE], "many": images[:, :, :LONG]}


def centre(groups, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(groups, 7, size, generator=generator, dtype=torch.float64) + 0.5
    return Moments(rows.mean(1), rows.transpose(1, 2) @ rows / 7)


def part(name, source, groups, *, centred=False, **weights):
    size = LONG if source == "many" else SIZE
    middle = centre(groups.shape[1], size, len(name)) if centred else None
    return Part(name=name, source=source, size=size, groups=groups, centre=middle, **weights)


ALL, OWN = everyone(CLASSES), each_class(CLASSES)
BOTH = {"mean_weight": 0.7, "second_weight": 1.3}
PARTS = {
    "means": [part("a", "z", OWN)],
    "seconds": [part("a", "z", OWN, mean_weight=0.0, second_weight=0.8)],
    "both": [part("a", "z", OWN, **BOTH)],
    "global and classes": [part("a", "z", ALL, **BOTH), part("b", "few", OWN, **BOTH)],
    "pseudo-classes": [part("a", "z", PSEUDO, **BOTH)],
    "few positions": [part("a", "few", OWN, **BOTH)],
    "many positions": [part("a", "many", OWN, **BOTH)],
    "centred means": [part("a", "z", OWN, centred=True)],
    "centred": [part("a", "z", OWN, centred=True, **BOTH)],
    "centred globally": [part("a", "many", ALL, centred=True, **BOTH)],
    "centred pseudo-classes": [part("a", "few", PSEUDO, centred=True, **BOTH)],
    "everything": [
        part("a", "z", ALL, centred=True, **BOTH),
        part("bb", "few", PSEUDO, centred=True, **BOTH),
        part("c", "many", OWN, mean_weight=0.0, second_weight=0.5),
        part("d", "many", PSEUDO, mean_weight=0.2),
    ],
}
EVERY = pytest.mark.parametrize("name", PARTS)
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def embedding(name, count_weight=0.3, **changed):
    fields = {"features": features, "parts": tuple(PARTS[name]), "num_classes": CLASSES}
    return Embedding(**(fields | {"count_weight": count_weight, "dtype": torch.float64} | changed))


def rows(count=12, seed=0, dtype=torch.float64, scale=1.0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.standard_normal((count, 6, SIZE)) * scale + 0.3).to(dtype)
    return {"images": images.numpy(), "labels": rng.integers(0, CLASSES, count)}


def written_out(of, columns):
    """One flat vector per row: every group's block, zero but for the row's own groups."""
    images, labels = (torch.as_tensor(columns[key]) for key in ("images", "labels"))
    found = {key: each.double() for key, each in features(images).items()}
    blocks = []
    for each in of.parts:
        z = found[each.source]
        z = z if z.dim() == 3 else z[:, None]
        upper = [(i, j) for i in range(each.size) for j in range(i, each.size)]
        outer = torch.stack([(z[:, :, i] * z[:, :, j]).mean(1) for i, j in upper], 1)
        for kind, value in (("mean", z.mean(1)), ("second", outer)):
            weight = each.mean_weight if kind == "mean" else each.second_weight
            if not weight:
                continue
            centres = torch.zeros(each.num_groups, value.shape[1], dtype=torch.float64)
            if each.centre is not None:
                second = each.centre.second
                centres = torch.stack([second[:, i, j] for i, j in upper], 1)
                centres = each.centre.mean if kind == "mean" else centres
            member = each.groups.double()[labels][:, :, None]
            blocks.append((weight * member * (value[:, None] - centres)).flatten(1))
    if of.count_weight:
        one_hot = torch.nn.functional.one_hot(labels, CLASSES).double()
        blocks.append(of.count_weight * one_hot)
    return torch.cat(blocks, 1)


def longest(of, columns):
    """Of vectors around zero, which rounding is relative to."""
    plain = tuple(
        Part(**{**vars_of(each), "centre": None}) if each.centre else each for each in of.parts
    )
    return written_out(embedding("means", of.count_weight, parts=plain), columns).norm(dim=1).max()


def vars_of(each):
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


@EVERY
@PRECISIONS
@pytest.mark.parametrize("count_weight", [0.0, 0.3])
class TestWrittenOut:
    def test_norms(self, name, dtype, count_weight):
        of, columns = embedding(name, count_weight), rows(40, dtype=dtype)
        exact = written_out(of, columns).norm(dim=1)
        found = of.norms(units(columns)).double()
        assert (found >= exact * (1 - 1e-6)).all()
        above = found.square() - exact.square()
        assert (above <= 2e-6 * exact.square() + 1e-4 * longest(of, columns) ** 2).all()
        if "centred" not in name and name != "everything":
            torch.testing.assert_close(found, exact, rtol=1e-6, atol=0)

    def test_weighted_sums(self, name, dtype, count_weight):
        of, columns = embedding(name, count_weight), rows(40, dtype=dtype)
        batch, weights = units(columns), torch.rand(40, dtype=torch.float64)
        of.norms(batch)
        expected = weights @ written_out(of, columns)
        found = flat(of.weighted_sum(batch, weights))
        close = 1e-6 * float(longest(of, columns)) * 40 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=close)

    def test_zeros_have_the_shapes_of_a_sum(self, name, dtype, count_weight):
        of, batch = embedding(name, count_weight), units(rows(3, dtype=dtype))
        of.norms(batch)
        total = of.weighted_sum(batch, torch.ones(3, dtype=torch.float64))
        zeros = of.zeros()
        assert list(zeros) == list(total)
        assert [zeros[key].shape for key in zeros] == [total[key].shape for key in zeros]
        assert not flat(zeros).any()


@EVERY
def test_a_class_with_one_row_or_none(name):
    """Sums by kind take another way when kinds are equally many."""
    for labels in ([0, 1, 2, 3], [0, 0, 2, 1], [3, 3, 3, 3], [1, 2, 1, 2]):
        columns = {**rows(4), "labels": np.array(labels)}
        of, batch = embedding(name), units(columns)
        of.norms(batch)
        found = flat(of.weighted_sum(batch, torch.ones(4, dtype=torch.float64)))
        torch.testing.assert_close(found, written_out(of, columns).sum(0))


@EVERY
def test_users_are_averaged(name):
    of, columns = embedding(name), rows(12)
    vectors = written_out(of, columns)
    vectors = torch.stack([vectors[user == USERS].mean(0) for user in np.unique(USERS)])
    batch, weights = units(columns, USERS), torch.rand(len(vectors), dtype=torch.float64)
    assert (of.norms(batch).double() >= vectors.norm(dim=1) * (1 - 1e-6)).all()
    torch.testing.assert_close(flat(of.weighted_sum(batch, weights)), weights @ vectors)


def test_a_user_of_many_rows_is_clipped_like_any_other():
    """Norms that are averaged in single precision fall behind by a thousandth."""
    count, clip = 100_000, 0.5
    of = Embedding(
        features=lambda images: {"z": images},
        parts=(Part(name="a", source="z", size=3, groups=each_class(2)),),
        num_classes=2,
        count_weight=0.1,
    )
    for seed in range(10):
        row = torch.rand(1, 3, generator=torch.Generator().manual_seed(seed)) + 0.5
        columns = {"images": row.expand(count, 3).numpy(), "labels": np.zeros(count, np.int64)}
        user = units(columns, np.zeros(count, np.int64))
        assert float(flat(clipped_sum([user], of, clip)).norm()) <= clip


def test_images_without_labels_are_of_one_class():
    of = Embedding(
        features=features,
        parts=(Part(name="a", source="z", size=SIZE, groups=each_class(1)),),
        num_classes=1,
        count_weight=0.1,
    )
    images = rows(12)["images"]
    labelled = {"images": images, "labels": np.zeros(12, np.int64)}
    found, expected = (
        clipped_sum([units(each)], of, 1.0) for each in ({"images": images}, labelled)
    )
    assert torch.equal(flat(found), flat(expected))


@EVERY
@pytest.mark.parametrize("size", [1, 5, 12])
def test_physical_batches_do_not_change_the_sum(name, size):
    columns = rows(12)
    batches = [
        units({key: value[i : i + size] for key, value in columns.items()})
        for i in range(0, 12, size)
    ]
    whole = flat(clipped_sum([units(columns)], embedding(name), 0.7))
    torch.testing.assert_close(flat(clipped_sum(batches, embedding(name), 0.7)), whole)


class TestBadRows:
    def test_undeclared_labels_contribute_nothing(self):
        columns = rows(8)
        columns["labels"][[2, 4]] = [99, -1]
        of = embedding("everything")
        assert of.norms(units(columns)).isnan().tolist() == [i in (2, 4) for i in range(8)]
        kept = {key: np.delete(value, [2, 4], 0) for key, value in columns.items()}
        torch.testing.assert_close(
            flat(clipped_sum([units(columns)], of, 1.0)), flat(clipped_sum([units(kept)], of, 1.0))
        )

    def test_a_user_with_one_undeclared_label_contributes_nothing(self):
        columns = rows(12)
        columns["labels"][0] = CLASSES  # of user 4
        of = embedding("everything")
        kept = {key: value[USERS != 4] for key, value in columns.items()}
        torch.testing.assert_close(
            flat(clipped_sum([units(columns, USERS)], of, 1.0)),
            flat(clipped_sum([units(kept, USERS[USERS != 4])], of, 1.0)),
        )

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
    @PRECISIONS
    def test_features_without_bounds_contribute_no_more_than_others(self, bad, dtype):
        columns = rows(6, dtype=dtype)
        columns["images"][3, 1, 2] = bad
        of = embedding("everything")
        others = {key: np.delete(value, 3, 0) for key, value in columns.items()}
        gap = flat(clipped_sum([units(columns)], of, 1.0)) - flat(
            clipped_sum([units(others)], of, 1.0)
        )
        assert float(gap.norm()) <= 1.0
        if not np.isfinite(bad):
            assert not gap.any()


class TestSensitivity:
    @settings(deadline=None, max_examples=60)
    @given(
        st.sampled_from(sorted(PARTS)),
        st.integers(0, 10**6),
        st.sampled_from([0.1, 1.0, 30.0]),
        st.sampled_from([0.05, 1.0, 20.0]),
        st.sampled_from([torch.float32, torch.float64]),
    )
    def test_one_more_example(self, name, seed, scale, clip_norm, dtype):
        of, columns = embedding(name), rows(9, seed, dtype, scale)
        fewer = {key: value[1:] for key, value in columns.items()}
        gap = flat(clipped_sum([units(columns)], of, clip_norm)) - flat(
            clipped_sum([units(fewer)], of, clip_norm)
        )
        assert float(gap.norm()) <= clip_norm

    @settings(deadline=None, max_examples=30)
    @given(st.sampled_from(sorted(PARTS)), st.integers(0, 10**6), st.integers(0, 4))
    def test_one_more_user(self, name, seed, user):
        users = np.concatenate([np.arange(5), np.random.default_rng(seed).integers(0, 5, 9)])
        of, columns = embedding(name), rows(14, seed, scale=2.0)
        kept = {key: value[users != user] for key, value in columns.items()}
        gap = flat(clipped_sum([units(columns, users)], of, 0.8)) - flat(
            clipped_sum([units(kept, users[users != user])], of, 0.8)
        )
        assert float(gap.norm()) <= 0.8

    @EVERY
    def test_an_example_alone(self, name):
        """With nothing to cancel: the clip norm itself, at most."""
        for seed in range(20):
            total = clipped_sum([units(rows(1, seed, torch.float32))], embedding(name), 0.1)
            assert float(flat(total).norm()) <= 0.1

    @pytest.mark.parametrize("centred", [False, True])
    def test_rounding_of_long_sums_stays_below_what_clipping_leaves(self, centred):
        """Removing the first row moves every batch, and so all rounding."""
        each = part("a", "z", ALL, centred=centred, second_weight=1.0)
        of = embedding("means", parts=(each,))
        columns = rows(6000, dtype=torch.float32)
        columns["images"] = np.tanh(columns["images"] * 0.3 + 1)

        def total(data):
            slices = (slice(i, i + 512) for i in range(0, len(data["labels"]), 512))
            batches = (units({key: value[s] for key, value in data.items()}) for s in slices)
            return flat(clipped_sum(batches, of, 0.5))

        first = total({key: value[:1] for key, value in columns.items()})
        rest = total({key: value[1:] for key, value in columns.items()})
        assert float((total(columns) - rest - first).norm()) <= 0.5 * 1e-5


class TestMoments:
    @EVERY
    @pytest.mark.parametrize("clip_norm", [None, 1.5])
    def test_moments_are_weighted_means_by_group(self, name, clip_norm):
        of, columns = embedding(name), rows(30)
        norms = written_out(of, columns).norm(dim=1)
        weights = torch.ones(30).double() if clip_norm is None else clip_norm / norms.clamp(min=1.5)
        images, labels = (torch.from_numpy(columns[key]) for key in ("images", "labels"))
        found, per_class = of.moments(images, labels, clip_norm)
        one_hot = torch.nn.functional.one_hot(labels, CLASSES).double()
        torch.testing.assert_close(per_class.double(), weights @ one_hot, rtol=1e-4, atol=0)
        for each in of.parts:
            z = features(images)[each.source]
            z = z if z.dim() == 3 else z[:, None]
            share = weights[:, None] * each.groups.double()[labels]
            share = share / share.sum(0)
            used = each.groups.any(0)
            mean = torch.einsum("ng,ntd->gd", share, z) / z.shape[1]
            second = torch.einsum("ng,ntd,nte->gde", share, z, z) / z.shape[1]
            if each.mean_weight:
                torch.testing.assert_close(
                    found[each.name].mean[used].double(), mean[used], rtol=1e-4, atol=1e-5
                )
            if each.second_weight:
                torch.testing.assert_close(
                    found[each.name].second[used].double(), second[used], rtol=1e-4, atol=1e-5
                )
            else:
                assert found[each.name].second is None

    @pytest.mark.parametrize("name", list(PARTS))
    @pytest.mark.parametrize("clip_norm", [1.5, 1e3])
    def test_a_release_without_noise_has_the_moments_of_its_images(self, name, clip_norm):
        of, columns = embedding(name), rows(30)
        blocks = clipped_sum([units(columns)], of, clip_norm)
        totals = blocks["counts.mean"][:, 0] / of.count_weight
        images, labels = (torch.from_numpy(columns[key]) for key in ("images", "labels"))
        expected, per_class = of.moments(images, labels, clip_norm)
        torch.testing.assert_close(totals, per_class.double(), rtol=1e-4, atol=0)
        for key, found in of.as_moments(blocks, totals).items():
            used = next(each for each in of.parts if each.name == key).groups.any(0)
            for kind in ("mean", "second"):
                ours, theirs = getattr(found, kind), getattr(expected[key], kind)
                assert (ours is None) == (theirs is None)
                if ours is not None:
                    close = {"rtol": 1e-4, "atol": 1e-4}
                    torch.testing.assert_close(ours[used], theirs[used].double(), **close)

    @pytest.mark.parametrize("clip_norm", [None, 1.5])
    @pytest.mark.parametrize("name", ["both", "few positions", "many positions", "centred"])
    def test_gradients_reach_the_images(self, name, clip_norm):
        """Against small steps; through the clip as well."""
        columns = rows(8)
        images = torch.from_numpy(columns["images"]).requires_grad_()
        labels = torch.arange(8) % CLASSES

        def loss(pixels):
            found, _ = embedding(name).moments(pixels, labels, clip_norm)
            return sum(
                each.mean.double().square().sum() + each.second.double().square().sum()
                for each in found.values()
            )

        [slope] = torch.autograd.grad(loss(images), images)
        step = torch.from_numpy(rows(8, seed=1)["images"])
        with torch.no_grad():
            change = (loss(images + 1e-3 * step) - loss(images - 1e-3 * step)) / 2e-3
        assert float((slope * step).sum()) == pytest.approx(float(change), rel=1e-2)
        assert slope.flatten(1).any(1).all()


class TestFeatures:
    def test_the_vectors_summed_are_the_ones_measured(self):
        """Features that change from call to call are computed once."""
        generator = torch.Generator().manual_seed(0)

        def random(images):
            return {key: each * torch.rand(1, generator=generator) for key, each in views(images)}

        def views(images):
            return features(images * 100).items()

        for seed in range(20):
            of = embedding("everything", features=random)
            assert float(flat(clipped_sum([units(rows(1, seed))], of, 0.5)).norm()) <= 0.5

    @pytest.mark.parametrize("source", ["z", "few", "many"])
    def test_mean_squares_are_those_of_written_out_blocks(self, source):
        columns = rows(20)
        z = features(torch.from_numpy(columns["images"]))[source]
        for found, weights in zip(
            mean_squares(z),
            ({"mean_weight": 1.0}, {"mean_weight": 0.0, "second_weight": 1.0}),
            strict=True,
        ):
            of = embedding("means", 0.0, parts=(part("a", source, ALL, **weights),))
            exact = written_out(of, columns).square().sum(1).mean()
            assert found == pytest.approx(float(exact))

    def test_half_precision_is_raised_before_norms(self):
        half = embedding(
            "both", features=lambda images: {"z": (images[:, 0] * 50).to(torch.float16)}
        )
        columns = rows(200, scale=0.1)
        total = flat(clipped_sum([units(columns)], half, 300.0))
        fewer = {key: value[1:] for key, value in columns.items()}
        assert total.isfinite().all()
        assert float((total - flat(clipped_sum([units(fewer)], half, 300.0))).norm()) <= 300.0

    def test_no_vector_per_image_is_formed(self):
        """300 classes × 300 features' second moments × 200 images would be 21 GB."""
        each = Part(name="a", source="z", size=300, groups=each_class(300), second_weight=1.0)
        of = embedding(
            "means", parts=(each,), num_classes=300, features=lambda images: {"z": images}
        )
        images = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
        columns = {"images": images, "labels": np.arange(200)}
        norms = of.norms(units(columns)).double()
        z = torch.from_numpy(images).double()
        upper = torch.triu(z[0, :, None] * z[0]).square().sum() + z[0].square().sum()
        assert float(norms[0]) == pytest.approx(float((upper + 0.09).sqrt()))


def test_features_of_another_width_are_refused():
    """One number for each of D coordinates would be counted once and summed D times."""
    narrow = embedding("means", features=lambda images: {"z": images[:, 0, :1]})
    with pytest.raises(PrivacyError, match="are 1 numbers, and part 'a' has"):
        clipped_sum([units(rows(3))], narrow, 1.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parts": tuple(PARTS["means"] * 2)}, "Parts need different names"),
        ({"parts": (part("counts", "z", OWN),)}, "Parts need different names"),
        ({"count_weight": -1.0}, "weight of counts must be 0 or more"),
        ({"count_weight": float("nan")}, "weight of counts must be 0 or more"),
        ({"num_classes": 3}, "Part 'a' does not know 3 classes"),
    ],
)
def test_what_makes_no_embedding_is_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        embedding("means", **changed)
