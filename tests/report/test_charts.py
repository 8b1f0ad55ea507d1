import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.report.charts import Curve, line_chart

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: round(value, 6))


def curve(points, **settings):
    return Curve(title="Loss", across="step", up="loss", lines={"a": tuple(points)}, **settings)


def drawn(chart):
    return ET.fromstring(str(line_chart(chart)))


def places(chart):
    text = drawn(chart).find(".//polyline").get("points")
    return [tuple(map(float, place.split(","))) for place in text.split()]


def test_lines_go_where_values_go():
    (left, low), (middle, high), (right, end) = places(curve([(0, 0), (5, 10), (10, 5)]))
    assert left < middle < right
    assert high < end < low  # heights are counted from the top


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_every_line_stays_inside(points):
    chart = drawn(curve(points))
    *_, width, height = map(float, chart.get("viewBox").split())
    text = chart.find(".//polyline").get("points")
    for place in text.split():
        x, y = map(float, place.split(","))
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_axes_have_round_numbers():
    chart = drawn(curve([(0, 0.003), (97, 0.41)]))
    texts = [each.text for each in chart.iter("text")]
    assert {"0", "0.1", "0.2", "0.3", "0.4", "0.5", "20", "100", "step"} <= set(texts)


def test_small_changes_of_a_share_look_small():
    heights = [y for _, y in places(curve([(0, 0.964), (1, 0.968)], percent=True))]
    assert abs(heights[0] - heights[1]) < 20


def test_shares_are_in_per_cent_and_described():
    chart = drawn(curve([(0, 0.5), (1, 0.75)], percent=True))
    assert chart.get("aria-label") == "Loss, loss over step: a goes from 50% to 75%."
    assert any(each.text == "60%" for each in chart.iter("text"))


def test_a_limit_is_drawn_and_fits():
    chart = drawn(curve([(0, 0.1), (1, 0.2)], limit=2.0))
    [line] = [each for each in chart.iter("line") if each.get("class") == "limit"]
    assert float(line.get("y1")) > 0


@pytest.mark.parametrize("points", [[(3, 7)], [(0, 0), (1, 0)], [(5, 2), (5, 2)]])
def test_what_does_not_change_is_drawn_too(points):
    assert len(places(curve(points))) == len(points)


def test_names_cannot_break_out():
    chart = Curve(title='"><script>', across="<b>", up="y", lines={"<i>": ((0, 1), (1, 2))})
    text = str(line_chart(chart))
    ET.fromstring(text)
    assert not re.search("<script|<b>|<i>", text)


def test_shares_lie_in_the_middle_of_what_is_drawn_and_are_never_more_than_all():
    texts = {each.text for each in drawn(curve([(0, 0.89), (1, 0.9)], percent=True)).iter("text")}
    assert {"84%", "96%"} <= texts
    texts = {each.text for each in drawn(curve([(0, 0.99), (1, 1.0)], percent=True)).iter("text")}
    assert "100%" in texts
    assert "102%" not in texts


def test_logarithmic_axes_have_powers_of_ten_and_hold_nothing_too():
    points = ((0.001, 0.0), (0.01, 0.1), (1, 1))
    chart = curve(points, percent=True, logarithmic=True, bounds={"a": ((0.001, 0.01), (1, 1))})
    texts = [each.text for each in drawn(chart).iter("text")]
    assert {"0.1%", "1%", "10%", "100%"} <= set(texts)
    bound, line = (each.get("points").split() for each in drawn(chart).iter("polyline"))
    (left, low), (middle, _), (right, high) = (map(float, each.split(",")) for each in line)
    assert (middle - left) / (right - left) == pytest.approx(1 / 3, abs=1e-3)
    ends = [tuple(map(float, each.split(","))) for each in bound]
    assert (ends[0][1] - high) / (low - high) == pytest.approx(2 / 3, abs=1e-3)
    assert "The bound of a goes from 1% to 100%." in drawn(chart).get("aria-label")
