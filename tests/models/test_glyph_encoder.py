import torch

from privet.models import ConvEncoder, glyph_encoder
from privet.public import glyph_rows
from privet.recipes.feature_models import GlyphHead, features


def test_it_is_made_of_single_precision_and_ready_to_use():
    network = glyph_encoder()
    assert not network.training
    assert all(each.dtype == torch.float32 for each in network.parameters())
    assert all(each.isfinite().all() for each in network.state_dict().values())
    images = torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(network(images), network.folded()(images), atol=1e-4, rtol=1e-3)
    assert not torch.equal(network(images), ConvEncoder(1).eval()(images))


def test_it_tells_characters_apart_that_it_has_not_seen():
    """By the nearest of class means of few examples; chance is a tenth."""
    encoder = GlyphHead().encoder()

    def seen(seed, per_class):
        rows = glyph_rows(
            (28, 28, 1), per_class, torch.Generator().manual_seed(seed), characters="0123456789"
        )
        return features(encoder, rows.inputs), rows.targets

    (few, labels), (others, truth) = seen(101, 10), seen(102, 20)
    means = torch.stack([few[labels == label].mean(0) for label in range(10)])
    found = torch.cdist(others, means).argmin(1)
    assert (found == truth).float().mean() > 0.9


def test_images_of_any_size_become_as_many_features():
    encoder = GlyphHead().encoder()
    assert encoder(torch.rand(2, 1, 8, 8)).shape == (2, 1024)
    assert encoder(torch.rand(2, 1, 40, 30)).shape == (2, 1024)
