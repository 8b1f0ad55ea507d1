import json

import pytest

from privet.cli.progress import Watch, two_digits
from privet.privacy import PLD, Plan, PoissonSteps, Relation
from privet.runs import train_log
from privet.runs.run_folder import RunFolder
from privet.runs.run_metrics import Metrics
from privet.runs.session import Session
from privet.runs.train_config import Asked
from privet.runs.train_run import train


class Silent:
    """A listener that keeps what it heard."""

    def __init__(self):
        self.news = []

    def note(self, sentence):
        pass

    def step(self, news):
        self.news.append(news)

    def stopping(self):
        pass


def test_speed_is_of_expected_images(tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(train_log.time, "monotonic", lambda: float(next(clock)))
    asked = Asked(
        **{"data": "digits", "method": "dp-sgd", "epsilon": 2.0, "delta": 1e-5, "views": "3"},
        **{"model": "linear", "sample_rate": 0.1, "epochs": 0.5, "declared_size": 1700.0},
    )
    heard = Silent()
    train(asked, Session(out=tmp_path / "run"), heard)
    assert [news.step for news in heard.news] == [1, 2, 3, 4, 5]
    assert {news.total for news in heard.news} == {5}
    assert heard.news[-1].epsilon == heard.news[-1].target == 2
    for news in heard.news:  # 510 views a step, whatever was drawn
        whole = 510 * news.step / news.rows_per_second
        assert whole == pytest.approx(round(whole))


def test_a_terminal_sees_a_bar_and_json_does_not(capsys, monkeypatch):
    assert [two_digits(x) for x in (1234.5, 87.6, 0.123)] == ["1,200", "88", "0.12"]
    news = train_log.News(step=3, total=9, epsilon=0.5, target=2.0, rows_per_second=1234.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for bar in (True, False):
        with Watch(bar=bar) as watch:
            watch.step(news)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert ("3/9" in shown.err and "ε 0.5 of 2" in shown.err) is bar
    assert "1,200/s expected rows" in shown.err or not bar


def test_costs_are_upper_bounds():
    steps = PoissonSteps(sampling_rate=0.1, noise_multiplier=2.0, steps=20)
    costs = train_log.Costs(Plan((steps,)), 1e-5, Relation.ADD_REMOVE)
    assert costs(0) == 0
    for paid in range(1, 21):
        assert costs(paid) >= PLD().epsilon((steps.times(paid),), 1e-5, Relation.ADD_REMOVE)
    assert costs(20) == costs.whole


def test_lost_lines_are_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    Metrics(folder).keep(lambda line: line["step"] <= 2)
    kept = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [{"step": 1}, {"step": 2}]
