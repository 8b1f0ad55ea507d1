"""SPS and SPS+ against the formulas and algorithms of SPS."""

import math
from inspect import signature

import pytest
import torch

from privet.errors import ConfigError
from privet.recipes import position_moments as recipe
from privet.recipes.position_moments import sps, sps_embedding, sps_plus
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.release import each_class, released_moments
from privet.synthesis import InTurn
from tests.recipes.small import CLASSES, SHAPE, DictMemory, Silence, encoder, hedge, pictures

SMALL = {
    **{"global_size": 3, "class_size": 4, "class_layers": 2},
    **{"iterations": 2, "later_iterations": 3, "per_class": 2},
}


def per_layer(size):
    """D^layer = D + D (D + 1) / 2: a mean, and the upper triangle of a second moment."""
    return size + size * (size + 1) / 2


@pytest.mark.parametrize(
    ("layers", "class_layers", "d_g", "d_c", "ratios"),
    [(5, 3, 192, 192, (1 / 8,)), (16, 4, 96, 32, (1 / 16, 1 / 8)), (2, 1, 7, 20, (0.5,))],
)
def test_scale_and_clip_norm_are_those_of_algorithm_2(layers, class_layers, d_g, d_c, ratios):
    """S = L D_G^layer / (|L_C| D_C^layer) and |v|_max = K_clip √(2 L D_G^layer)."""
    settings = Sps(
        layers=tuple(map(str, range(layers))),
        class_layers=class_layers,
        global_size=d_g,
        class_size=d_c,
        clip_ratios=ratios,
    )
    scale = layers * per_layer(d_g) / (class_layers * per_layer(d_c))
    assert settings.class_scale**2 == pytest.approx(scale)
    assert settings.clip_norms == pytest.approx(
        [ratio * math.sqrt(2 * layers * per_layer(d_g)) for ratio in ratios]
    )
    # The same bound as the paper's other way of writing it.
    longest = math.sqrt(layers * per_layer(d_g) + scale * class_layers * per_layer(d_c))
    assert settings.clip_norms[0] == pytest.approx(ratios[0] * longest)


def test_no_vector_is_longer_than_the_bound_at_a_clip_ratio_of_1():
    """Squashed features lie in (−1, 1), so K_clip is a share of the longest vector there can be."""
    settings = Sps(clip_ratios=(1.0,), **SMALL).of(encoder())
    [clip_norm] = settings.clip_norms
    loud = encoder()
    for layer in loud.layers:
        layer[0].weight.data *= 1e3
    embedding = sps_embedding(loud, settings, SHAPE, CLASSES, 0, clip_norm=0.0)
    columns = {name: torch.as_tensor(each) for name, each in pictures().items()}
    norms = embedding.batch(columns["images"], columns["labels"]).norms()
    assert 0.5 * clip_norm < norms.max() <= clip_norm * (1 + 1e-6)


def test_class_parts_are_scaled_and_global_ones_are_not():
    for rescale in (True, False):
        settings = Sps(rescale=rescale, **SMALL).of(encoder())
        embedding = sps_embedding(encoder(), settings, SHAPE, CLASSES, 0, clip_norm=1.0)
        weights = {part.name: (part.mean_weight, part.second_weight) for part in embedding.parts}
        root = settings.class_scale if rescale else 1.0
        assert weights == {
            **{f"layers_{number}_0-all": (1.0, 1.0) for number in range(3)},
            **{f"layers_{number}_0-class": (root, root) for number in (1, 2)},
        }


def test_layers_are_the_encoders_where_none_are_named():
    assert Sps(**SMALL).of(encoder()).layers == ("layers.0.0", "layers.1.0", "layers.2.0")
    assert Sps(**SMALL, layers=("layers.0", "layers.1")).of(encoder()).layers[1] == "layers.1"
    with pytest.raises(ConfigError, match="class_layers is 4 and the encoder has 3 layers"):
        Sps(class_layers=4).of(encoder())


def test_pseudo_classes_hold_every_class_equally_often():
    assert torch.equal(Sps().groups(5), each_class(5))
    groups = SpsPlus(pseudo_count=10, per_pseudo=2, seed=3).groups(5)
    assert groups.sum(0).tolist() == [2] * 10
    assert groups.sum(1).tolist() == [4] * 5
    assert torch.equal(groups, SpsPlus(pseudo_count=10, per_pseudo=2, seed=3).groups(5))


def test_recipes_are_functions_that_are_imported_when_they_are_used():
    import privet.recipes

    for name in ("dp_mepf", "dp_merf", "sps", "sps_g", "sps_plus"):
        assert callable(getattr(privet.recipes, name))
    assert privet.recipes.sps is sps


def test_sps_plus_is_sps_with_other_settings(tmp_path):
    synthetic = sps_plus(
        hedge(tmp_path),
        encoder=[encoder()],
        image_shape=SHAPE,
        num_classes=CLASSES,
        count=6,
        settings=SpsPlus(**SMALL),
    )
    assert sum(each.count for each in synthetic.certificate.plan.events) == 2
    own, common = (signature(each).parameters for each in (sps_plus, sps))
    assert {**own, "settings": None} == {**common, "settings": None}


class TestStages:
    COUNT, BATCH = 10, 6  # two batches

    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        """Two stages without noise or clipping, and whatever they were made of."""
        memory, embeddings, sums, optimised = DictMemory(), [], [], []
        released, optimise = recipe.released, recipe.optimised

        def noted(hedge, embedding, *words):
            embeddings.append(embedding)
            sums.append(released(hedge, embedding, *words))
            return sums[-1]

        def optimising(start, labels, matching, config, **more):
            result = optimise(start, labels, matching, config, **more)
            optimised.append((start, matching, config, result))
            return result

        monkeypatch.setattr(recipe, "released", noted)
        monkeypatch.setattr(recipe, "optimised", optimising)
        settings = SpsPlus(pseudo_count=3, per_pseudo=2, clip_ratios=(50.0, 50.0), **SMALL)
        synthetic = sps(
            hedge(tmp_path, randomness=Silence()),
            encoder=[encoder()],
            image_shape=SHAPE,
            num_classes=CLASSES,
            count=self.COUNT,
            settings=settings,
            memory=memory,
        )
        return synthetic, settings, memory, embeddings, sums, optimised

    def test_the_second_is_centred_on_the_firsts_images(self, run):
        _, settings, memory, embeddings, _, _ = run
        batches = [memory.kept[f"stage-0-batch-{number:05d}"]["images"] for number in range(2)]
        labels = torch.arange(2 * self.BATCH) % CLASSES
        assert all(part.centre is None for part in embeddings[0].parts)
        settings = settings.of(encoder())
        plain = sps_embedding(encoder(), settings, SHAPE, CLASSES, 1, settings.clip_norms[1])
        with torch.no_grad():
            expected, _ = plain.moments(torch.cat(batches), labels)
        for part in embeddings[1].parts:
            torch.testing.assert_close(part.centre.mean, expected[part.name].mean)
            torch.testing.assert_close(part.centre.second, expected[part.name].second)

    def test_what_was_subtracted_is_added_again(self, run):
        """Without noise and clipping both stages tell the private moments (Algorithm 7)."""
        _, _, _, embeddings, sums, _ = run
        columns = {name: torch.as_tensor(each) for name, each in pictures().items()}
        for embedding, released in zip(embeddings, sums, strict=True):
            with torch.no_grad():
                exact, _ = embedding.moments(columns["images"], columns["labels"])
            declared = torch.full((CLASSES,), 20.0)
            for name, found in released_moments(embedding, released, declared).items():
                torch.testing.assert_close(found.mean, exact[name].mean, rtol=1e-3, atol=1e-4)
                torch.testing.assert_close(found.second, exact[name].second, rtol=1e-3, atol=1e-4)

    def test_projections_are_drawn_for_each_stage(self, run):
        images = torch.as_tensor(pictures(2)["images"])
        first, second = (embedding.features(images) for embedding in run[3])
        assert not any(torch.allclose(first[name], second[name], rtol=0.1) for name in first)

    def test_a_later_stage_starts_from_the_last_and_matches_all(self, run):
        synthetic, settings, memory, _, _, optimised = run
        assert len(optimised) == 2  # two batches; the next stage's are made when asked for
        synthetic.batch(1)
        start, matching, config, result = optimised[-1]
        assert torch.equal(start, memory.kept["stage-0-batch-00001"]["images"])
        assert torch.equal(result, memory.kept["stage-1-batch-00001"]["images"])
        assert isinstance(matching, InTurn)
        assert [len(each[1]._losses) for each in optimised] == [1, 1, 2]
        assert matching._step == config.iterations == settings.later_iterations
        assert optimised[0][2].iterations == settings.iterations

    def test_a_batch_depends_on_its_number_alone(self, run):
        synthetic, *_ = run
        last = synthetic.batch(3)[0]
        synthetic.batch(0)
        assert (synthetic.batch(3)[0] == last).all()
        assert (synthetic.batch(0)[0] != last).any()
        assert "the encoders" in synthetic.certificate.public
