"""Moments of images against ones that are written out naively, in double precision."""

import pytest
import torch

from privet.hedge import Units, clipped_sum
from privet.release import Embedding, Lens, Moments, Part, Projection, Seen, each_class, everyone
from privet.release.image_moments import (
    AsPositions,
    LazyFeatures,
    Squashed,
    WrittenOut,
    gathered,
    image_moments,
)
from privet.release.triangles import pack

CLASSES = 4
PSEUDO = torch.tensor([[1.0, 0, 1], [1.0, 1, 0], [0.0, 1, 1], [0.0, 0, 0]])
# Images, positions, channels and features: chunks of several images and of one, and a short form.
SHAPES = [(9, 30, 5, 7), (5, 700, 6, 96), (6, 9, 5, 12), (7, 2, 5, 12)]
EVERY = pytest.mark.parametrize("shape", SHAPES, ids=str)


def squashed(shape, seed=0, dtype=torch.float32):
    count, positions, channels, size = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, positions, channels, generator=generator, dtype=torch.float64)
    matrix = torch.randn(size, channels, generator=generator, dtype=torch.float64)
    return Squashed(x.to(dtype), matrix.to(dtype) / channels**0.5)


def naive(x, matrix):
    """Means and second moments, by definition."""
    z = torch.tanh(torch.einsum("ntc,dc->ntd", x, matrix))
    return z.mean(1), torch.einsum("ntd,nte->nde", z, z) / z.shape[1]


def forms(shape):
    """The same moments, unformed, formed, and in tiles."""
    made_of = squashed(shape)
    tiles = [
        image_moments(Squashed(each, made_of.matrix), second=True) for each in made_of.x.split(4)
    ]
    return [
        image_moments(made_of, second=True),
        image_moments(made_of.formed(), second=True),
        gathered(tiles),
    ]


def exact(shape):
    made_of = squashed(shape)
    return naive(made_of.x.double(), made_of.matrix.double())


class TestMoments:
    @EVERY
    def test_means_and_squared_norms(self, shape):
        mean, second = exact(shape)
        for found in forms(shape):
            torch.testing.assert_close(found.mean.double(), mean, rtol=1e-5, atol=1e-6)
            squares = found.second_squares()
            assert squares.dtype == torch.float64
            torch.testing.assert_close(squares, pack(second).square().sum(1), rtol=1e-5, atol=0)

    @EVERY
    @pytest.mark.parametrize("num_kinds", [1, 3, 50])
    def test_sums_by_kind_are_double(self, shape, num_kinds):
        _, second = exact(shape)
        kinds = torch.arange(len(second)) * 7 % num_kinds
        weights = torch.rand(len(second), dtype=torch.float64)
        expected = torch.zeros(num_kinds, *second.shape[1:], dtype=torch.float64)
        expected.index_add_(0, kinds, weights[:, None, None] * second)
        for found in forms(shape):
            sums = found.second_sums(kinds, num_kinds, weights)
            torch.testing.assert_close(sums, expected, rtol=1e-6, atol=1e-6)

    @EVERY
    def test_products_with_matrices_of_kinds(self, shape):
        _, second = exact(shape)
        kinds = torch.arange(len(second)) % 3
        matrices = torch.randn(3, shape[3], shape[3], dtype=torch.float64)
        matrices = matrices + matrices.mT
        expected = (pack(second) * pack(matrices)[kinds]).sum(1)
        for found in forms(shape):
            dots = found.second_dots(matrices, kinds)
            torch.testing.assert_close(dots, expected, rtol=1e-5, atol=1e-4)

    def test_many_positions_are_written_out_and_few_are_not(self):
        assert isinstance(image_moments(squashed(SHAPES[0]), second=True), WrittenOut)
        assert isinstance(image_moments(squashed(SHAPES[0]), second=False), AsPositions)
        assert isinstance(image_moments(squashed(SHAPES[-1]), second=True), AsPositions)
        assert isinstance(image_moments(torch.rand(3, 2), second=True), AsPositions)

    def test_sums_and_their_gradients_are_symmetric(self):
        made_of = squashed(SHAPES[0])
        second = image_moments(made_of, second=True).seconds[0].requires_grad_()
        kinds, weights = torch.arange(9) % 2, torch.ones(9)
        sums = WrittenOut(torch.zeros(9, 7), (second,)).second_sums(kinds, 2, weights)
        assert sums.equal(sums.mT)
        generator = torch.Generator().manual_seed(0)
        [slope] = torch.autograd.grad(
            (sums * torch.randn(2, 7, 7, generator=generator)).sum(), second
        )
        assert slope.equal(slope.mT)

    @pytest.mark.parametrize("size", [1, 48, 300])
    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_a_norm_is_that_of_the_numbers_that_are_summed(self, size, scale):
        """Never below it by more than a tenth of what clipping leaves, however S was rounded."""
        z = scale * torch.randn(6, 400, size, generator=torch.Generator().manual_seed(0))
        found = image_moments(z, second=True)
        for place in range(6):
            alone = torch.zeros(6, dtype=torch.float64)
            alone[place] = 1
            summed = found.second_sums(torch.zeros(6, dtype=torch.long), 1, alone)
            norm = pack(summed[0]).norm()
            assert float(found.second_squares()[place].sqrt()) >= float(norm) * (1 - 1e-6)


class TestGradients:
    @EVERY
    @pytest.mark.parametrize("formed", [False, True])
    def test_they_are_those_of_naive_moments(self, shape, formed):
        """In double precision; the gradients of means and of second moments are any."""
        made_of = squashed(shape, dtype=torch.float64)
        slopes = []
        for way in (naive, moments_of(formed)):
            x = made_of.x.clone().requires_grad_()
            mean, second = way(x, made_of.matrix)
            generator = torch.Generator().manual_seed(1)
            total = (mean * torch.randn(mean.shape, generator=generator)).sum()
            by_second = torch.randn(second.shape, generator=generator)
            total = total + (second * (by_second + by_second.mT)).sum()
            slopes.append(torch.autograd.grad(total, x)[0])
        torch.testing.assert_close(*slopes)

    def test_maps_with_channels_first_are_read_as_they_lie(self):
        generator = torch.Generator().manual_seed(0)
        maps = torch.randn(5, 6, 8, 9, generator=generator, dtype=torch.float64)
        matrix = torch.randn(4, 6, generator=generator, dtype=torch.float64)
        slopes = []
        for layout in (torch.contiguous_format, torch.channels_last):
            own = maps.contiguous(memory_format=layout).requires_grad_()
            found = image_moments(Squashed(Lens(layer="a", grid=0).taken(own), matrix), second=True)
            total = found.seconds[0].square().sum() + found.mean.square().sum()
            slopes.append(torch.autograd.grad(total, own)[0])
        torch.testing.assert_close(*slopes)


def moments_of(formed):
    def way(x, matrix):
        made_of = Squashed(x, matrix)
        found = image_moments(made_of.formed() if formed else made_of, second=True)
        if isinstance(found, WrittenOut):
            return found.mean, found.seconds[0]
        each = torch.arange(len(x))
        return found.mean, found.second_sums(each, len(x), torch.ones(len(x)))

    return way


class TestLazyFeatures:
    def test_they_are_formed_once_and_when_asked_for(self):
        made_of = squashed(SHAPES[0])
        found = LazyFeatures({"z": made_of})
        assert (list(found), len(found)) == (["z"], 1)
        assert found["z"] is found["z"]
        assert found["z"].equal(made_of.formed())


def part(name, groups, *, centred):
    rows = torch.randn(groups.shape[1], 9, 6, generator=torch.Generator().manual_seed(2)).tanh()
    centre = Moments(rows.mean(1), rows.mT @ rows / 9) if centred else None
    return Part(name=name, source=name, size=6, groups=groups, second_weight=1.5, centre=centre)


def embedding(*, centred):
    """Of a network's positions, as SPS has them: for all, by class and by pseudo-class."""
    groups = {"all": everyone(CLASSES), "own": each_class(CLASSES), "pseudo": PSEUDO}
    generator = torch.Generator().manual_seed(3)
    lenses = {
        name: Lens(layer="0", grid=0, projection=Projection.random(3, 6, generator))
        for name in groups
    }
    seen = Seen(lambda images: {"0": torch.nn.functional.conv2d(images, FILTERS)}, lenses)
    parts = tuple(part(name, each, centred=centred) for name, each in groups.items())
    return Embedding(features=seen, parts=parts, num_classes=CLASSES, count_weight=0.2)


FILTERS = torch.randn(3, 1, 3, 3, generator=torch.Generator().manual_seed(4))


def pictures(count):
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def written_out(of, images, labels):
    """Every image's vector, in double precision."""
    maps = torch.nn.functional.conv2d(images.double(), FILTERS.double())
    blocks = []
    for each in of.parts:
        matrix = of.features.lenses[each.source].projection.matrix.double() / 2
        mean, second = naive(maps.flatten(2).mT, matrix)
        for value, kind in ((mean, "mean"), (pack(second), "second")):
            centre = 0 if each.centre is None else each.centres[kind].double()
            member = each.groups.double()[labels][:, :, None]
            blocks.append((each.weights[kind] * member * (value[:, None] - centre)).flatten(1))
    blocks.append(of.count_weight * torch.nn.functional.one_hot(labels, CLASSES).double())
    return torch.cat(blocks, 1)


@pytest.mark.parametrize("centred", [False, True])
class TestEmbeddings:
    COUNT = 150  # several tiles, the last one not full

    def test_clipped_sums(self, centred):
        of, images = embedding(centred=centred), pictures(self.COUNT)
        labels = torch.arange(self.COUNT) * 3 % CLASSES
        vectors = written_out(of, images, labels)
        units = Units({"images": images, "labels": labels}, torch.arange(self.COUNT + 1))
        norms = of.norms(units).double()
        assert (norms >= vectors.norm(dim=1) * (1 - 1e-6)).all()
        torch.testing.assert_close(norms, vectors.norm(dim=1), rtol=1e-3, atol=0)
        clipped = vectors * (0.7 * (1 - 1e-5) / norms.clamp(min=0.7))[:, None]
        found = clipped_sum([units], of, 0.7)
        flat = torch.cat([block.flatten() for block in found.values()])
        torch.testing.assert_close(flat, clipped.sum(0), rtol=1e-6, atol=1e-5)

    def test_undeclared_labels_count_for_nothing(self, centred):
        of, images = embedding(centred=centred), pictures(self.COUNT)
        labels = torch.arange(self.COUNT) % CLASSES
        labels[[3, 140]] = torch.tensor([CLASSES, -1])
        declared = (labels >= 0) & (labels < CLASSES)
        both = Units({"images": images, "labels": labels}, torch.arange(self.COUNT + 1))
        assert of.norms(both).isnan().equal(~declared)
        found, expected = (clipped_sum([each], of, 0.7) for each in (both, both.select(declared)))
        for name, block in found.items():
            torch.testing.assert_close(block, expected[name])

    @pytest.mark.parametrize("clip_norm", [None, 0.7])
    def test_gradients_of_moments(self, centred, clip_norm):
        """Down to the images, over several tiles, through the clip."""
        of, labels = embedding(centred=centred), torch.arange(self.COUNT) % CLASSES
        images = pictures(self.COUNT).requires_grad_()
        found, _ = of.moments(images, labels, clip_norm)
        [slope] = torch.autograd.grad(sum(weighed(found, of)), images)

        plain = pictures(self.COUNT).double().requires_grad_()
        weights = torch.ones(self.COUNT, dtype=torch.float64)
        if clip_norm is not None:
            weights = clip_norm / written_out(of, plain, labels).norm(dim=1).clamp(min=clip_norm)
        maps = torch.nn.functional.conv2d(plain, FILTERS.double())
        expected = {}
        for each in of.parts:
            matrix = of.features.lenses[each.source].projection.matrix.double() / 2
            mean, second = naive(maps.flatten(2).mT, matrix)
            share = weights[:, None] * each.groups.double()[labels]
            share = share / share.sum(0)
            expected[each.name] = Moments(
                share.T @ mean, torch.einsum("ng,nde->gde", share, second)
            )
        [exact] = torch.autograd.grad(sum(weighed(expected, of)), plain)
        torch.testing.assert_close(
            slope.double(), exact, rtol=1e-3, atol=1e-4 * float(exact.abs().max())
        )


def weighed(found, of):
    for each in of.parts:
        generator = torch.Generator().manual_seed(len(each.name))
        own = found[each.name]
        yield (own.mean * torch.randn(own.mean.shape, generator=generator)).sum()
        yield (own.second * torch.randn(own.second.shape, generator=generator)).sum()
