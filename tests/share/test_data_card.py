"""Cards as Markdown and YAML readers see them, whatever classes are called."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import privet
from privet.data.guard import shown
from privet.privacy import Certificate, GaussianRelease, Guarantee, Plan, Relation, Unit
from privet.privacy.certificate import ALWAYS_PUBLIC, NOTHING_PRIVATE
from privet.share.data_card import NPZ, PARQUET, PNG, DataCard
from privet.share.escapes import in_markdown, in_yaml

HOSTILE = (
    "cat",
    "a | b",
    "<script>alert(1)</script>",
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "https://evil.example www.evil.example me@evil.example",
    "**bold** _it_ ~~no~~ `code` $x^2$",
    "&lt;b&gt; &copy;",
    "line\nbreak\r\n---\n# heading",
    "---",
    "yes",
    "null",
    "0x1F: [1, 2] {a: b} # c",
    "quote\" and 'quote' and \\ back",
    "",
    " space ",
    "été ☃ 🌱",
    "right\u202eleft",
    "tab\there \x00 \x85 \ufeff",
    "\ud800",
    "n" * 300,
)


def certificate(**changes):
    guarantee = Guarantee(
        epsilon=1.0, delta=1e-5, relation=Relation.ADD_REMOVE, unit=Unit.EXAMPLE, accountant="PLD"
    )
    fields = {
        "guarantee": guarantee,
        "plan": Plan.of(GaussianRelease(noise_multiplier=3.7)),
        "composition": "RDP filter",
        "public": ALWAYS_PUBLIC,
        "declared": {"units": 1500.0},
        "outside": (),
        "seeded": False,
        "accountant_version": "dp_accounting 0.6.0",
        "privet_version": "0.1.0",
    }
    return Certificate(**fields | changes)


def card(names=("cat", "dog"), **changes):
    fields = {
        "count": 7 * len(names) or 7,
        "image_shape": (8, 9, 1),
        "class_names": names,
        "class_counts": (7,) * len(names),
        "soft_labels": False,
        "method": "sps-g",
        "settings": {"iterations": "20", "encoder": "conv"},
        "privet_version": "0.1.0",
        "certificate": certificate(),
    }
    return DataCard(**fields | changes)


def front_matter(text):
    _, matter, body = text.split("---\n", 2)
    return yaml.safe_load(matter), body


def cells(body):
    """The cells of the table of classes, as a reader sees them, and every tag there is."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse(body[body.index("## Classes") :])
    rows, tags = [], set()
    for token in tokens:
        tags.add(token.tag)
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and token.level == 4:
            tags |= {each.tag for each in token.children} | {each.type for each in token.children}
            rows[-1].append("".join(each.content for each in token.children))
    return rows[1:], tags


@pytest.mark.parametrize("form", [PARQUET, PNG, NPZ])
def test_what_a_card_says(form):
    text = card().text(form)
    matter, body = front_matter(text)
    assert matter["task_categories"] == ["image-classification"]
    assert matter["size_categories"] == ["n<1K"]
    assert "license" not in matter
    assert "# license: yours to choose" in text
    for part in (
        "14 synthetic images, each 8×9 pixels, grey, in 2 classes. Privet 0.1.0",
        "| ε | 1 |",
        "| δ | 1e-05 |",
        "| relation | add or remove one example |",
        "| unit | one example |",
        "| accountant | PLD (dp\\_accounting 0.6.0) |",
        "| declared units | 1500 |",
        "1 × Gaussian release (σ = 3.7)",
        "| 1 | dog | 7 |",
        "method sps-g",
        "Settings: iterations = 20, encoder = conv.",
        "## How to load it",
        "## Limits",
    ):
        assert part in body
    assert in_markdown(card().statement) in body


def test_the_front_matter_tells_datasets_what_lies_where():
    matter, _ = front_matter(card(HOSTILE, soft_labels=True).text(PARQUET))
    [config] = matter["configs"]
    assert config["data_files"] == [{"split": "train", "path": "part-*.parquet"}]
    image, label, soft = matter["dataset_info"]["features"]
    assert image == {"name": "image", "dtype": "image"}
    names = label["dtype"]["class_label"]["names"]
    assert names == {str(number): name for number, name in enumerate(HOSTILE)}
    assert soft == {"name": "probabilities", "sequence": "float32"}
    matter, _ = front_matter(card(HOSTILE).text(PNG))
    assert matter["configs"][0]["data_files"] == [{"split": "train", "path": "*/*.png"}]


def test_class_names_do_nothing_but_show():
    _, body = front_matter(card(HOSTILE).text(PARQUET))
    rows, tags = cells(body)
    assert [row[0] for row in rows] == [str(number) for number in range(len(HOSTILE))]
    assert [row[1] for row in rows] == [shown(name).strip() for name in HOSTILE]
    assert tags & {"a", "img", "em", "strong", "s", "code", "html_inline", "html_block"} == {"code"}
    assert not re.search(r"(?<!\\)(https?://|www\.|@)", body[: body.index("## How to load")])


@pytest.mark.parametrize("name", HOSTILE)
def test_yaml_reads_what_was_meant(name):
    assert yaml.safe_load(f"- {in_yaml(name)}") == [name]


def test_nothing_private():
    text = card(certificate=None, method="edm").text(PARQUET)
    matter, body = front_matter(text)
    assert NOTHING_PRIVATE in body
    assert "| ε |" not in body
    assert "differential-privacy" not in matter["tags"]
    assert "made them from images that were declared public" in body
    assert "adds to its ε" not in body


def test_a_seeded_run_says_that_it_is_not_private():
    text = card(certificate=certificate(seeded=True)).text(PARQUET)
    matter, body = front_matter(text)
    assert "NOT private" in matter["pretty_name"]
    assert "| ε | none: NOT private |" in body
    assert "This run is NOT private" in body
    assert "differential-privacy" not in matter["tags"]


def test_images_without_labels():
    matter, body = front_matter(card((), image_shape=(8, 8, 3)).text(PARQUET))
    assert matter["task_categories"] == ["unconditional-image-generation"]
    assert [each["name"] for each in matter["dataset_info"]["features"]] == ["image"]
    assert "7 synthetic images, each 8×8 pixels, colour, without labels" in body
    assert "None: images have no labels." in body


@pytest.mark.parametrize(
    ("count", "size"),
    [(999, "n<1K"), (1000, "1K<n<10K"), (10**5, "100K<n<1M"), (10**7, "10M<n<100M")],
)
def test_sizes(count, size):
    assert front_matter(replace(card(), count=count).text(NPZ))[0]["size_categories"] == [size]


def test_it_is_cited_as_the_citation_file_says():
    cited = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    text = card(privet_version=privet.__version__).text(PARQUET)
    assert cited["message"] in text
    assert f"title = {{{cited['title']}}}" in text
    assert f"author = {{{{{cited['authors'][0]['name']}}}}}" in text
    assert f"version = {{{cited['version']}}}" in text
    assert f"license = {{{cited['license']}}}" in text
