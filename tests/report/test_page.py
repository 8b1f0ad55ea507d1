import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from privet.report import Bar, Curve, Fact, Figure, comparison, page
from tests.report.stories import NASTY, story

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Checked(HTMLParser):
    """Every element is closed where it should be; what it has is kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(params=["page", "comparison"])
def text(request):
    if request.param == "page":
        return page(story())
    return comparison([story("first"), story("second")])


def test_it_is_whole_and_alone(text):
    found = Checked(text)
    assert not found.all("script")
    assert not found.all("link")
    assert all(each["src"].startswith("data:image/png;base64,") for each in found.all("img"))
    addresses = re.findall(r"(?:src|href)=\"([^\"]*)", text) + re.findall(r"url\(([^)]*)", text)
    assert all(each.startswith(("#", "data:")) for each in addresses)
    assert "default-src 'none'" in text


def test_links_within_the_page_arrive(text):
    found = Checked(text)
    places = {attributes.get("id") for _, attributes in found.elements}
    assert {each["href"].removeprefix("#") for each in found.all("a")} <= places


def test_pictures_and_charts_have_words(text):
    found = Checked(text)
    assert found.all("img")
    assert all(each["alt"] for each in found.all("img"))
    charts = [each for each in found.all("svg") if each.get("role") == "img"]
    assert charts
    assert all(each["aria-label"] for each in charts)


def test_it_tells_everything(text):
    words = " ".join(Checked(text).words)
    for part in (
        "ε = 1",
        "almost as well",
        "1 × Gaussian release (σ = 3.731)",
        "cats",
        "no images",
        "75.0%",
        "privet synthesize digits",
        "clip_norm",
    ):
        assert part in words


def test_sections_of_nothing_are_left_out():
    bare = page(story(samples=(), curves=(), classes=(), measures=()))
    assert not {"samples", "course", "classes", "measures"} & set(re.findall(r'id="(\w+)"', bare))
    assert 'id="privacy"' in bare


def test_whatever_someone_typed_stays_text():
    sample = replace(story().samples[0], name=NASTY)
    bar = replace(story().classes[0], name=NASTY)
    nasty = story(
        name=NASTY,
        title=NASTY,
        lead=NASTY,
        samples=(sample,),
        classes=(bar,),
        settings=(Fact(NASTY, NASTY),),
        figures=(Figure(NASTY, NASTY, NASTY),),
        command=NASTY,
        hints=(NASTY,),
    )
    for text in (page(nasty), comparison([nasty, nasty])):
        assert "<script" not in text
        assert any(NASTY in words for words in Checked(text).words)


def test_what_is_not_private_is_loud():
    privacy = replace(story().privacy, private=False, statement="This run is NOT private.")
    assert re.search(r'class="alarm"[^>]*>This run is NOT private', page(story(privacy=privacy)))
    outside = replace(story().privacy, outside=("diagnostics",))
    assert "outside the guarantee: diagnostics." in page(story(privacy=outside))


def test_runs_that_cannot_be_compared_are_pointed_out():
    first, second = story("first"), story("second")
    assert "do not mean the same" not in comparison([first, second])
    other = replace(
        second.privacy, facts=(Fact("δ", "1e-06"), Fact("relation", "replace one example"))
    )
    text = comparison([first, replace(second, privacy=other)])
    assert text.count("their ε do not mean the same") == 2
    tested = comparison([first, replace(second, classes_note="Accuracy on 99 images.")])
    assert "tested on different images" in tested


def test_curves_of_several_runs_share_a_chart():
    text = comparison([story("first"), story("second")])
    assert text.count("<polyline") == 2
    assert text.count('role="img"') == 1
    assert "first goes from 50% to 90%; second goes from 50% to 90%" in text


def test_runs_of_one_ledger_share_its_picture():
    def drawing(name, own):
        bars = (
            Bar("one", 0.5, "ε = 1", own=own == "one"),
            Bar("two", 0.4, "ε = 0.8", own=own == "two"),
        )
        return replace(story(name), privacy=replace(story().privacy, budget=bars))

    text = comparison([drawing("first", "one"), drawing("second", "two")])
    assert text.count("What was reserved of the owner") == 1
    for name in ("one", "two"):
        assert f'<tr class="own"><th scope="row" title="{name}">' in text
    apart = comparison([drawing("first", "one"), story("second")])
    assert apart.count("What was reserved of the owner") == 2


def test_a_limit_is_drawn_and_told():
    budget = Curve(title="Spent", across="step", up="ε", lines={"ε": ((1, 0.5), (2, 1))}, limit=2.0)
    text = page(replace(story(), curves=(budget,)))
    assert 'class="limit"' in text
    assert "The limit is 2." in text
