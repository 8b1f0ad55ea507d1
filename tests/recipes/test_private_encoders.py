"""An encoder that private images taught: what it costs, and that nothing of it is paid twice."""

import dp_accounting
import pytest
import torch
from dp_accounting.pld import PLDAccountant
from torch import nn

from privet.errors import ConfigError, PrivacyError
from privet.hedge import Hedge, Randomness
from privet.hedge.units import Rows
from privet.privacy import Budget, GaussianRelease, PoissonSteps, Relation
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.public import fractal_noise
from privet.recipes import private_encoders as recipe
from privet.recipes.map_moments import SpsG, sps_g
from privet.recipes.mean_embeddings import dp_mepf
from privet.recipes.mean_settings import DpMepf
from privet.recipes.position_moments import sps
from privet.recipes.private_encoders import PrivatelyTrained, private_encoder
from privet.recipes.releases import hedge_noise, plan_of, planned_sums, release_noise
from privet.recipes.sps_settings import Sps
from tests.recipes.small import CLASSES, SHAPE, SMALL, DictMemory, hedge, pictures

LESSONS = PrivatelyTrained(epochs=2, sampling_rate=0.25, width=4, groups=2)
STEPS = 8
DELTA = 1e-5


class Killed(BaseException):
    """Stands in for SIGKILL."""


def taught(behind, lessons=LESSONS, **more):
    return private_encoder(behind, lessons, image_shape=SHAPE, num_classes=CLASSES, **more)


def weights(encoder):
    return torch.cat([each.flatten() for each in encoder.parameters()])


def by_dp_accounting(events, relation):
    """ε of events in the words of dp_accounting, with none of our code between."""
    relations = dp_accounting.NeighboringRelation
    accountant = PLDAccountant(
        relations.ADD_OR_REMOVE_ONE if relation == "add-remove" else relations.REPLACE_ONE,
        value_discretization_interval=1e-3,
    )
    for event in events:
        noise = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        if isinstance(event, PoissonSteps):
            noise = dp_accounting.PoissonSampledDpEvent(event.sampling_rate, noise)
        accountant.compose(noise, event.count)
    return accountant.get_epsilon(DELTA)


class TestCost:
    @pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.2), (4.0, 0.5), (8.0, 0.9)])
    def test_training_alone_costs_its_share_and_everything_the_whole(
        self, relation, epsilon, share
    ):
        lessons = PrivatelyTrained(share=share, epochs=3, sampling_rate=0.1)
        budget = Budget(epsilon=epsilon, delta=DELTA)
        before = lessons.events(budget, Relation(relation))
        assert [each.steps for each in before] == [30]
        assert by_dp_accounting(before, relation) == pytest.approx(share * epsilon, rel=5e-3)
        ratios = (1.0, 10.0)
        sigma = release_noise(budget, Relation(relation), ratios, before)
        plan = plan_of(before, sigma, ratios)
        assert [type(each) for each in plan.events] == [PoissonSteps, *[GaussianRelease] * 2]
        assert by_dp_accounting(plan.events, relation) == pytest.approx(epsilon, rel=5e-3)
        less_noise = plan_of(before, 0.97 * sigma, ratios)
        assert by_dp_accounting(less_noise.events, relation) > epsilon

    @pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
    def test_the_plan_of_a_reservation_costs_what_was_reserved(self, tmp_path, relation):
        behind = hedge(tmp_path, epsilon=3.0, relation=relation)
        taught(behind)
        plan = behind.reservation.plan
        assert 0.99 * 3 < behind.reservation.guarantee.epsilon <= 3
        assert by_dp_accounting(plan.events, relation) == pytest.approx(3.0, rel=5e-3)

    def test_releases_have_more_noise_than_without_lessons(self, tmp_path):
        plain, behind = hedge(tmp_path), hedge(tmp_path / "b")
        taught(behind)
        [alone], [rest] = planned_sums(plain, [1.0]), planned_sums(behind, [1.0])
        assert rest.noise_multiplier > 1.01 * alone.noise_multiplier
        assert hedge_noise(behind, CLASSES) == pytest.approx(
            rest.noise_multiplier * CLASSES / 10_000, rel=1e-4
        )

    def test_a_share_is_neither_nothing_nor_everything(self):
        for share in (0.0, 1.0, -0.1):
            with pytest.raises(ConfigError, match="share between 0 and 1"):
                PrivatelyTrained(share=share)


class TestSpending:
    def systems(self):
        noise = fractal_noise(SHAPE, 60, torch.Generator().manual_seed(0))
        common = {"num_classes": CLASSES}
        return {
            "sps-g": lambda behind, encoder: sps_g(
                behind,
                encoder=encoder,
                public=noise,
                settings=SpsG(early=4, middle=4, deep=4, pixels=4, everywhere=3, **SMALL),
                **common,
            ),
            "dp-mepf": lambda behind, encoder: dp_mepf(
                behind,
                encoder=encoder,
                image_shape=SHAPE,
                settings=DpMepf(stopping=True, checks=2, **SMALL),
                **common,
            ),
            "sps": lambda behind, encoder: sps(
                behind,
                encoder=[encoder],
                image_shape=SHAPE,
                count=6,
                settings=Sps(iterations=2, global_size=3, class_size=3, per_class=2),
                **common,
            ),
        }

    @pytest.mark.parametrize("name", ["sps-g", "dp-mepf", "sps"])
    def test_what_is_spent_is_what_was_planned(self, tmp_path, name):
        behind = hedge(tmp_path)
        ratios = (1.0, 10.0) if name == "dp-mepf" else (1.0,)
        encoder = taught(behind, noise_ratios=ratios)
        plan = behind.reservation.plan
        assert behind.reservation.record.spent == (STEPS, *[0] * len(ratios))
        synthetic = self.systems()[name](behind, encoder)
        record = behind.reservation.record
        assert record.plan == plan
        assert (
            record.spent == tuple(each.count for each in plan.events) == (STEPS, *[1] * len(ratios))
        )
        assert synthetic.take(6)[0].shape == (6, *SHAPE)
        assert synthetic.certificate.plan == plan
        named = ("images for components",) if name == "sps-g" else ()
        assert synthetic.certificate.public == (*ALWAYS_PUBLIC, *named)

    def test_a_public_encoder_beside_it_is_named(self, tmp_path):
        behind = hedge(tmp_path)
        both = [taught(behind), LESSONS.outline(SHAPE, None)]
        settings = SpsG(early=4, middle=4, deep=4, pixels=4, everywhere=3, **SMALL)
        noise = fractal_noise(SHAPE, 60, torch.Generator().manual_seed(0))
        synthetic = sps_g(
            behind, encoder=both, public=noise, num_classes=CLASSES, settings=settings
        )
        assert synthetic.certificate.public == (
            *ALWAYS_PUBLIC,
            "encoders besides the one that private images taught",
            "images for components",
        )

    def test_other_releases_than_planned_are_refused(self, tmp_path):
        behind = hedge(tmp_path)
        taught(behind, noise_ratios=(1.0, 1.0))
        with pytest.raises(PrivacyError, match="made for another plan"):
            planned_sums(behind, [1.0])
        with pytest.raises(PrivacyError, match="made for another plan"):
            planned_sums(behind, [1.0, 1.0], [1.0, 10.0])
        assert planned_sums(behind, [1.0, 2.0])

    @pytest.mark.parametrize("other", [{"epochs": 3}, {"sampling_rate": 0.5, "epochs": 4}])
    def test_other_lessons_than_planned_are_refused(self, tmp_path, other):
        behind = hedge(tmp_path)
        taught(behind)
        with pytest.raises(PrivacyError, match="made for another plan"):
            taught(behind, PrivatelyTrained(**{"sampling_rate": 0.25, "width": 4, **other}))

    def test_no_row_is_read_before_the_plan_is_fixed_nor_beyond_it(self, tmp_path, monkeypatch):
        reads, batch = [], Rows.batch
        behind = hedge(tmp_path)

        def noted(rows, units, device, number):
            reads.append(behind.reservation.plan)
            return batch(rows, units, device, number)

        monkeypatch.setattr(Rows, "batch", noted)
        taught(behind)
        assert STEPS // 2 <= len(reads) <= 2 * STEPS
        with pytest.raises(PrivacyError, match="paid for already, and lost"):
            taught(behind)
        assert behind.reservation.record.spent == (STEPS, 0)


class TestLabels:
    @pytest.mark.parametrize("label", [CLASSES, 10**9, -1, -100])
    def test_one_that_is_not_declared_counts_for_nothing(self, tmp_path, label):
        without, bad = pictures(), pictures()
        without["images"][5] = 0
        bad["labels"][5] = label
        found = []
        for name, columns in (("without", without), ("bad", bad)):
            reservation = hedge(tmp_path / name).reservation
            behind = Hedge(columns, reservation, randomness=Randomness(3))
            if name == "without":
                columns["labels"][5] = CLASSES
            found.append(weights(taught(behind)))
        assert torch.equal(*found)  # whatever the image is
        assert found[0].isfinite().all()

    def test_images_without_any_are_refused_before_the_plan(self, tmp_path):
        behind = hedge(tmp_path, columns={"images": pictures()["images"]})
        with pytest.raises(ConfigError, match="have no labels, only images"):
            taught(behind)
        assert behind.reservation.record.plan is None


class TestLearning:
    def test_it_learns(self, tmp_path):
        """Bright and dark images, at a budget that hardly noises."""
        lessons = PrivatelyTrained(
            share=0.5, epochs=30, sampling_rate=0.5, width=4, learning_rate=0.02
        )
        found = []

        class Kept(recipe._Classifier):
            def __init__(self, *words):
                super().__init__(*words)
                found.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recipe, "_Classifier", Kept)
            encoder = taught(hedge(tmp_path, epsilon=200.0, randomness=Randomness(0)), lessons)
        columns = pictures()
        images = torch.from_numpy(columns["images"]).movedim(-1, 1) / 127.5 - 1
        right = found[0](images).argmax(1) == torch.from_numpy(columns["labels"])
        assert right.float().mean() > 0.8
        untaught = lessons.outline(SHAPE, None)
        assert not torch.equal(weights(encoder), weights(untaught))
        assert not any(each.requires_grad for each in encoder.parameters())

    def test_examples_are_not_mixed(self):
        encoder = LESSONS.outline(SHAPE, None)
        assert not any(isinstance(each, nn.BatchNorm2d) for each in encoder.modules())
        images = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(encoder(images)[:2], encoder(images[:2]))

    def test_first_weights_come_from_the_seed_alone(self):
        torch.manual_seed(1)
        one = weights(LESSONS.outline(SHAPE, None))
        torch.manual_seed(2)
        assert torch.equal(one, weights(LESSONS.outline(SHAPE, None)))

    def test_the_divisor_does_not_matter(self, tmp_path):
        """Adam's steps are the same for any, but for the ε that it adds to very small gradients:
        nobody has to know how many images there are."""
        few, many = [
            weights(
                taught(
                    Hedge(
                        pictures(),
                        hedge(tmp_path / str(size), epsilon=2.0).reservation,
                        randomness=Randomness(3),
                        declared_size=size,
                    )
                )
            )
            for size in (60, 6000)
        ]
        moved = few - weights(LESSONS.outline(SHAPE, None))
        assert (few - many).norm() < 1e-3 * moved.norm()


class TestInterruptions:
    def interrupted(self, monkeypatch, behind, memory, after, error=Killed):
        """Die when so many steps are paid for, before the last one is known."""
        step, calls = Hedge._Hedge__noised, []

        def dying(self, *words):
            calls.append(1)
            if len(calls) == after:
                raise error
            return step(self, *words)

        with monkeypatch.context() as patch:
            patch.setattr(Hedge, "_Hedge__noised", dying)
            with pytest.raises(error):
                taught(behind, memory=memory)

    def test_a_killed_run_goes_on_and_pays_for_no_more_than_was_planned(
        self, tmp_path, monkeypatch
    ):
        behind, memory = hedge(tmp_path), DictMemory()
        self.interrupted(monkeypatch, behind, memory, after=5)
        assert behind.reservation.record.spent == (5, 0)
        assert int(memory.drafts["encoder"]["step"]) == 1
        taught(behind, memory=memory)
        # Four steps were paid for and lost; so many fewer are made.
        assert int(memory.drafts["encoder"]["step"]) == 1 + (STEPS - 5)
        assert behind.reservation.record.spent == (STEPS, 0)
        kept = weights(taught(behind, memory=memory))
        assert memory.made == ["encoder"] * 2  # begun twice, and then read
        assert torch.equal(kept, weights(taught(behind, memory=memory)))

    def test_a_seeded_run_ends_the_same(self, tmp_path, monkeypatch):
        ends = []
        for after in (None, 1, 5):
            folder = tmp_path / str(after)
            behind = hedge(folder, randomness=Randomness(7))
            memory = DictMemory()
            if after is not None:
                self.interrupted(monkeypatch, behind, memory, after)
                again = Hedge(pictures(), behind.reservation, randomness=Randomness(7))
                behind = again
            ends.append(weights(taught(behind, memory=memory)))
            assert behind.reservation.record.spent == (STEPS, 0)
        assert torch.equal(ends[0], ends[1])
        assert torch.equal(ends[0], ends[2])

    def test_nothing_that_was_paid_for_is_bought_again(self, tmp_path):
        behind = hedge(tmp_path)
        taught(behind)  # and forgotten
        with pytest.raises(PrivacyError, match="paid for already, and lost"):
            taught(behind, memory=DictMemory())
        assert behind.reservation.record.spent == (STEPS, 0)

    @pytest.mark.parametrize("spent", [0, 3])
    def test_an_encoder_of_another_run_is_refused(self, tmp_path, monkeypatch, spent):
        theirs, memory = DictMemory(), DictMemory()
        taught(hedge(tmp_path / "theirs"), memory=theirs)
        behind = hedge(tmp_path / "ours")
        if spent:
            self.interrupted(monkeypatch, behind, memory, after=spent)
        memory.drafts = theirs.drafts
        with pytest.raises(PrivacyError, match="unfinished-encoder belongs to another run: rem"):
            taught(behind, memory=memory)
        assert behind.reservation.record.spent == (spent, 0)

    def test_a_damaged_one_was_paid_for(self, tmp_path):
        asked = []

        class Damaged(DictMemory):
            def unfinished(self, name, *, paid=False):
                asked.append(paid)

        taught(hedge(tmp_path), memory=Damaged())
        assert asked == [True]

    def test_ctrl_c_waits_for_the_step_and_keeps_it(self, tmp_path):
        import signal

        behind, memory, heard = hedge(tmp_path), DictMemory(), []

        def press(done, total):
            heard.append(done)
            if done == 3:
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            taught(behind, memory=memory, on_step=press)
        assert heard == [1, 2, 3]
        assert int(memory.drafts["encoder"]["step"]) == 3
        assert behind.reservation.record.spent == (3, 0)
        taught(behind, memory=memory, on_step=press)
        assert heard == list(range(1, STEPS + 1))
        assert behind.reservation.record.spent == (STEPS, 0)


class TestNoise:
    @pytest.mark.parametrize("shape", [(8, 8, 1), (7, 12, 3)])
    def test_images_come_from_the_generator_alone(self, shape):
        one, other = (
            fractal_noise(shape, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1)
        )
        assert torch.equal(one, other)
        assert (one.shape, one.dtype) == ((20, *shape), torch.uint8)
        assert not torch.equal(one, fractal_noise(shape, 20, torch.Generator().manual_seed(2)))

    def test_neighbours_look_alike(self):
        images = fractal_noise((16, 16, 1), 200, torch.Generator().manual_seed(0)).float()
        step = (images[:, 1:] - images[:, :-1]).square().mean()
        assert step < 0.5 * images.var()
        assert images.std() > 40
