import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.augment import CropFlip
from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema
from privet.errors import ConfigError, DataError
from privet.learn import (
    SGD,
    Adam,
    Ascent,
    AsIs,
    Augmented,
    EngineName,
    LastPrivate,
    Method,
    Mirror,
    Mixed,
    NoOrigin,
    PublicMoments,
    PublicOrigin,
    RandomDirections,
    Unperturbed,
    Unscaled,
)
from privet.optim import Schedule
from privet.privacy import Budget, Relation
from privet.public import WarmUp
from privet.recipes.feature_models import EncoderHead
from privet.recipes.models import ConvNetModel, MLPModel, TinyViT, WideResNetModel
from privet.recipes.row_kinds import ImageRows, TableRows
from privet.recipes.slots import model_text, read_slot, slot_text
from privet.recipes.training_config import TrainingConfig
from privet.runs.data_choice import DataChoice
from privet.runs.saved_config import first_difference
from privet.runs.train_config import RunConfig, read_model

PLAIN = CropFlip(padding=1, flip=False)

share = st.floats(0, 0.999)
positive = st.floats(1e-6, 1e6)
count = st.integers(1, 64)
limit = st.none() | positive
augment = st.builds(
    CropFlip,
    padding=st.integers(0, 8),
    flip=st.booleans(),
    cutout=st.integers(0, 8),
    mode=st.sampled_from(["reflect", "constant"]),
)
schedule = st.builds(Schedule, final=st.floats(0, 1), warm_up=share)
views = (
    st.builds(AsIs)
    | st.builds(Augmented, num_views=count, augment=augment)
    | st.builds(
        Mixed, num_base=count, num_self=count, num_diff=count, alpha=positive, augment=augment
    )
)
perturb = (
    st.builds(Unperturbed)
    | st.builds(Ascent, radius=positive, count=st.just(1), adaptive=st.booleans())
    | st.builds(RandomDirections, radius=positive, count=st.just(1))
)
scale = st.builds(Unscaled) | st.builds(PublicMoments, decay=share, damping=positive)
origin = (
    st.builds(NoOrigin)
    | st.builds(PublicOrigin, limit=limit)
    | st.builds(LastPrivate, decay=share, limit=limit)
)
base = st.builds(SGD, momentum=share, weight_decay=share) | st.builds(Adam, beta1=share)
update = base | st.builds(
    Mirror,
    alpha=st.floats(0, 1),
    schedule=st.sampled_from(["constant", "cosine"]),
    base=base,
)
method = st.builds(Method, views=views, perturb=perturb, scale=scale, origin=origin, update=update)
warm_up = st.none() | st.builds(
    WarmUp, epochs=count, learning_rate=positive, schedule=schedule, augment=st.none() | augment
)
model = (
    st.builds(ConvNetModel, width=count, strided=st.booleans())
    | st.builds(MLPModel, hidden=st.lists(count, max_size=3).map(tuple))
    | st.builds(WideResNetModel, depth=st.just(40), width=st.just(4))
    | st.builds(TinyViT, patch=count)
    | st.builds(EncoderHead, version=st.integers(0, 2), image_size=count, mirror=st.booleans())
)
training = st.builds(
    TrainingConfig,
    method=method,
    sampling_rate=st.floats(1e-4, 1),
    epochs=st.floats(0.1, 100),
    clip_norm=positive,
    learning_rate=positive,
    schedule=schedule,
    ema_decay=share,
    keep_last=st.integers(0, 9),
    public_batch=count,
    warm_up=warm_up,
    extended=st.floats(0, 1),
    engine=st.none() | st.sampled_from(EngineName),
    seed=st.integers(0, 2**31),
)
text = st.none() | st.sampled_from(["0.1", "100", "/data/π.npz"])
images = st.builds(ImageRows, shape=st.tuples(count, count, st.sampled_from([1, 3])))
tables = st.builds(
    lambda declared, low, missing: TableRows(
        declared=declared,
        schema=Schema(
            target="y",
            classes=("no", "yes"),
            columns=(
                Numeric(name="n", low=low, high=low + 1.0, missing=missing),
                Binary(name="b", values=("0", "1"), missing="1"),
                Categorical(name="c", categories=("x", "y", "z")),
                Ignored(name="i"),
            ),
        ),
    ),
    declared=st.booleans(),
    low=st.integers(-9, 9).map(float),
    missing=st.none(),
)
configs = st.builds(
    RunConfig,
    method=st.sampled_from(["dope", "dp-sgd"]),
    data=st.builds(
        DataChoice,
        source=st.text(min_size=1),
        public=text,
        test=text,
        resize=st.none() | st.just("32x48"),
        channels=st.sampled_from([None, "rgb", "grey"]),
        seed=st.integers(0, 9),
    ),
    rows=images | tables,
    class_names=st.lists(st.text(), max_size=4).map(tuple),
    model=model,
    budget=st.builds(Budget, epsilon=positive, delta=st.floats(1e-9, 0.5)),
    relation=st.sampled_from(Relation),
    training=training,
    ledger=st.none() | st.just("/owner/ledger.db"),
    declared_size=st.none() | positive,
    diagnostics=st.booleans(),
    seeded=st.booleans(),
)


@settings(deadline=None)
@given(configs)
def test_a_configuration_comes_back_equal_from_json(config):
    import json

    body = json.loads(json.dumps(config.to_json()))
    assert RunConfig.from_json(body) == config
    assert RunConfig.from_json(body).to_json() == body


@settings(deadline=None)
@given(st.data())
def test_a_slot_comes_back_equal_from_what_one_would_type(data):
    slots = {
        "views": views,
        "perturb": perturb,
        "scale": scale,
        "origin": origin,
        "update": update,
    }
    name = data.draw(st.sampled_from(list(slots)))
    value = data.draw(slots[name])
    # Text has six digits.
    typed = slot_text(name, value)
    assert slot_text(name, read_slot(name, typed, PLAIN)) == typed


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("views", "4", Augmented(num_views=4, augment=PLAIN)),
        ("views", "plain", AsIs()),
        (
            "views",
            "augmented:num_views=16,padding=4,flip=true",
            Augmented(num_views=16, augment=CropFlip()),
        ),
        (
            "views",
            "mixed:num_base=16,num_self=18,num_diff=2,alpha=0.3",
            Mixed(num_diff=2, alpha=0.3, augment=PLAIN),
        ),
        ("perturb", "none", Unperturbed()),
        ("perturb", "sam:radius=0.1,count=4", Ascent(radius=0.1, count=4)),
        ("perturb", "asam", Ascent(adaptive=True)),
        ("perturb", "random:radius=1", RandomDirections(radius=1)),
        ("scale", "public-moments:damping=0.2", PublicMoments(damping=0.2)),
        ("origin", "public:limit=0.5", PublicOrigin(limit=0.5)),
        ("origin", "last:decay=0.9", LastPrivate(decay=0.9)),
        ("update", "sgd:momentum=0.9", SGD(momentum=0.9)),
        ("update", "adam", Adam()),
        (
            "update",
            "mirror:alpha=0.5,schedule=constant,momentum=0.8",
            Mirror(alpha=0.5, schedule="constant", base=SGD(momentum=0.8)),
        ),
        ("update", "mirror:base=adam,beta1=0.5", Mirror(base=Adam(beta1=0.5))),
    ],
)
def test_what_is_typed(name, text, value):
    assert read_slot(name, text, PLAIN) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("views", "0", "every example needs at least one view"),
        ("views", "-3", "every example needs at least one view"),
        ("views", "many", "--views is 'many': choose plain, augmented, mixed, masked."),
        (
            "views",
            "augmented:paddin=3",
            "--views augmented has no setting 'paddin': it takes num_views, padding, flip, cutout, "
            "mode, invert.",
        ),
        ("views", "plain:num_views=3", "it takes none"),
        ("views", "augmented:num_views=few", "--views num_views is 'few': give a whole number."),
        ("views", "augmented:flip=maybe", "--views flip is 'maybe': give true or false."),
        ("views", "augmented:padding", "write name:key=value,key=value"),
        ("views", "augmented:padding=1,padding=2", "write name:key=value,key=value"),
        ("views", "mixed:num_base=0,num_self=0", "every example needs at least one view"),
        ("perturb", "sam:radius=-1", "ρ must be 0 or more, not -1"),
        ("perturb", "sam:radius=wide", "--perturb radius is 'wide': give a number."),
        ("perturb", "sam:adaptive=true", "no setting 'adaptive'"),
        ("origin", "public:limit=0", "λ must be above 0"),
        ("update", "mirror:base=rmsprop", "--update is 'rmsprop': choose sgd, adam."),
        ("update", "mirror:alpha=0.5,epsilon=1", "no setting 'epsilon'"),
    ],
)
def test_what_is_typed_wrong(name, text, sentence):
    with pytest.raises(ConfigError, match=r"\.$") as refusal:
        read_slot(name, text, PLAIN)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "conv-net:width=16,strided=true",
        "mlp:hidden=200-100",
        "linear",
        "wrn-40-4",
        "efficientnet-lite1:image_size=64,mirror=true,hidden=200",
        "efficientnet-lite1:image_size=64,mirror=true",
    ],
)
def test_models_are_typed_as_they_are_shown(text):
    assert model_text(read_model(text)) == text


def test_models_that_do_not_exist():
    with pytest.raises(ConfigError, match="--model is 'vgg': choose conv-net, linear"):
        read_model("vgg")
    with pytest.raises(ConfigError, match="give whole numbers such as 200-100"):
        read_model("mlp:hidden=big")


def test_the_first_difference_is_named():
    config = RunConfig.from_json(_example().to_json())
    other = dataclasses.replace(
        config, training=dataclasses.replace(config.training, learning_rate=2.0)
    )
    assert first_difference(config.to_json(), config.to_json()) is None
    assert first_difference(config.to_json(), other.to_json()) == (
        "training.learning_rate is 1.0 in the run and 2.0 now"
    )
    slots = dataclasses.replace(config.training.method, views=Augmented())
    other = dataclasses.replace(config, training=dataclasses.replace(config.training, method=slots))
    assert first_difference(config.to_json(), other.to_json()) == (
        "training.method.views.kind is 'plain' in the run and 'augmented' now"
    )


@pytest.mark.parametrize("break_it", ["lacks", "adds", "kind", "type"])
def test_a_damaged_configuration_is_refused(break_it):
    body = _example().to_json()
    if break_it == "lacks":
        del body["training"]["epochs"]
    if break_it == "adds":
        body["training"]["luck"] = 3
    if break_it == "kind":
        body["model"]["kind"] = "vgg"
    if break_it == "type":
        body["training"]["epochs"] = "ten"
    with pytest.raises(DataError, match="The configuration cannot be read"):
        RunConfig.from_json(body)


def _example():
    return RunConfig(
        method="dp-sgd",
        data=DataChoice(source="digits"),
        rows=ImageRows(shape=(8, 8, 1)),
        class_names=("0", "1"),
        model=MLPModel(hidden=()),
        budget=Budget(epsilon=1.0, delta=1e-5),
        relation=Relation.ADD_REMOVE,
        training=TrainingConfig(method=Method(), sampling_rate=0.1, epochs=1.0),
    )
