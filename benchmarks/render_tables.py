"""Write the tables of README and docs from the result files; `--check` only compares.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, and is never edited by hand.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md")))
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """A page with every table made anew."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


def noise() -> str:
    """Noise of one-shot releases by both accountants."""
    table = _results("calibration")["one_shot_releases"]
    chosen = [row for row in table if row["releases"] in (1, 5)]
    return _table(
        ("ε", "releases", "RDP", "Privet", "less noise"),
        [
            (
                f"{row['epsilon']:g}",
                str(row["releases"]),
                f"{row['rdp']:.3f}",
                f"{row['pld']:.3f}",
                f"{row['percent_less']:.1f}%",
            )
            for row in chosen
        ],
    )


def demo() -> str:
    """What the demo printed, on two cores."""
    found = _results("demo")
    score = {name: f"{100 * each:.1f}" for name, each in found["test_accuracy"].items()}
    return _table(
        ("the demo, test accuracy on 500 digits, %", ""),
        [
            ("private classifier: DOPE on a frozen encoder of glyphs", score["classifier"]),
            ("CNN that saw private synthetic digits alone", score["images"]),
            ("the same CNN, of the 500 public digits", score["public"]),
            ("the same CNN, of the private digits, without privacy", score["real"]),
            ("seconds of computing, on two cores", f"{found['seconds']:.0f}"),
        ],
    )


def figures() -> str:
    """One line for every measured claim."""
    total, crash = _results("clipped_sum"), _results("crash_ledger")
    start = _results("startup")["ratio_to_import_torch"]
    step = _results("step_overhead")["milliseconds_median"]
    memory = total["memory"]["extra_mib"]
    rows = (
        (
            "clipped sum of 60,000 × 4,096 over PyTorch's and NumPy's plain sum",
            _pair(total["speed"], "ratio", "ratio_to_numpy"),
        ),
        (
            "its extra memory at 15,000 and at 60,000 rows",
            f"{memory['15000']:.1f} and {memory['60000']:.1f} MiB",
        ),
        ("`privet --help` over `import torch`", f"{start['help']:.2f} ×"),
        ("`privet account` (PLD, RDP) over `import torch`", _pair(start, "account", "account_rdp")),
        (
            "slowest calibration for 10,000 steps",
            f"{_results('calibration')['slowest_seconds']:.1f} s",
        ),
        ("ledger per step", f"{step['ledger']:.1f} ms"),
        ("noise for 2.7 million coordinates", f"{step['noise']:.0f} ms"),
        (
            "processes killed; results out, counted, missing",
            f"{crash['kills']}; {crash['witnessed_results']:,}, {crash['counted_results']:,}, "
            f"{len(crash['violations'])}",
        ),
    )
    return _table(("figure", "measured"), rows)


def _pair(values: dict[str, float], one: str, other: str) -> str:
    return f"{values[one]:.2f} and {values[other]:.2f} ×"


def step_cost() -> str:
    """One line for every measured ratio, with what was asked of it."""
    found = _results("step_cost")
    lines = (
        ("WRN-16-4, K = 16: private step", "private_over_sgd", "≤ 1.10"),
        ("Opacus 1.6 over Privet, the same", "opacus_over_private", "≥ 4"),
        ("the same with plain convolutions", "plain_opacus_over_private", ""),
        ("vmap(grad) over Privet, the same", "vmap_over_private", "> 1"),
        ("WRN-16-4, K = 1, batch 64", "one_view_wrn_over_sgd", "≤ 1.8"),
        ("ViT, 6 blocks of width 192, 64 tokens, K = 1", "one_view_vit_over_sgd", "≤ 1.5"),
        ("DOPE over DP-SGD and its public images", "dope_over_its_images", "≤ 1.03"),
        ("mirror, likewise", "mirror_over_its_images", "≤ 1.03"),
        ("AdaDPS, likewise", "adadps_over_its_images", "≤ 1.03"),
        ("2 weight perturbations, K = 16", "perturbations_2_over_sgd", "≤ 1.3"),
        ("4 weight perturbations", "perturbations_4_over_sgd", "≤ 1.6"),
        ("16 weight perturbations", "perturbations_16_over_sgd", "≤ 2.5"),
        ("peak memory, batch 4,096 over 64, loop", "peak_ratio", "≤ 1.05"),
        ("noise and ledger, share of a step", "noise_and_ledger_share", "< 0.05"),
        ("training without privacy, share of GEMM speed", "sgd_share_of_gemm", ""),
    )
    rows = [(name, f"{found[key]:.2f}", aim) for name, key, aim in lines]
    return _table(("figure", "measured", "aim"), rows)


def faults() -> str:
    """Kills of every command by each signal, and what was lost of what was paid for."""
    found = _kept("faults")
    names = ("SIGKILL", "SIGTERM", "SIGINT")
    rows = [
        (name, str(row["jobs"]), *(str(row["kills"].get(each, 0)) for each in names))
        for name, row in found["commands"].items()
    ]
    jobs = sum(row["jobs"] for row in found["commands"].values())
    total = [sum(row["kills"].get(each, 0) for row in found["commands"].values()) for each in names]
    lost = sum(row["lost"] for row in found["commands"].values())
    table = _table(("command", "jobs", *names), [*rows, ("all", str(jobs), *map(str, total))])
    return table + (
        f"\n{found['kills']:,} kills in {found['minutes']:.0f} minutes: {found['results']:,}"
        f" results left the hedge, {found['counted']:,} were counted; runs that lost what they had"
        f" paid for, and said so: {lost}; violations: {found['violations']}.\n"
    )


def killed_jobs() -> str:
    """Kills of jobs of several processes."""
    found = _kept("killed_jobs")
    kinds = {"rank": "a rank of two", "party": "a party of three", "server": "a server"}
    return _table(
        ("killed", "times", "the job finished", "violations"),
        [
            (name, *(str(found[kind][each]) for each in ("kills", "finished")), _none(found[kind]))
            for kind, name in kinds.items()
        ],
    )


def _none(found: dict[str, Any]) -> str:
    return str(len(found["violations"]))


Rows = list[dict[str, Any]]


def learn(data: str) -> str:
    """One line per method of the learning study, a column for each ε."""
    methods: dict[str, Rows] = {}
    for row in _study():
        if row["data"].split("/")[0] == data:
            methods.setdefault(row["name"], []).append(row)
    epsilons = sorted({row["epsilon"] for rows in methods.values() for row in rows} - {None})
    columns = [f"ε = {each:g}" for each in epsilons]
    columns[:1] = ["ε = 1, seed 0", "ε = 1, three seeds"]
    head = ("method", "K", "steps", *columns, "no noise, seed 0")
    return _table(head, [_learn_line(name, rows, epsilons) for name, rows in methods.items()])


def _learn_line(name: str, rows: Rows, epsilons: list[float]) -> tuple[str, ...]:
    bounds = [row["no_noise"] for row in rows if "no_noise" in row]
    if rows[0]["epsilon"] is None:
        return (name, "—", "—", *["—"] * (len(epsilons) + 1), _seeds([rows[0]["public_only"]]))
    cells = [[row["accuracy"] for row in rows if row["epsilon"] == each] for each in epsilons]
    [first] = [row for row in rows if (row["epsilon"], row["seed"]) == (epsilons[0], 0)]
    cells[:1] = [[first["accuracy"]], cells[0] if len(cells[0]) > 1 else []]
    return (name, str(first["views"]), str(first["steps"]), *map(_seeds, cells), _seeds(bounds))


def _seeds(values: list[float]) -> str:
    """One value; of several, the mean and the range."""
    if not values:
        return ""
    mean, low, high = (100 * each for each in (sum(values) / len(values), min(values), max(values)))
    return f"{mean:.1f} ({low:.1f}–{high:.1f})" if len(values) > 1 else f"{mean:.1f}"


def learn_summary() -> str:
    """At ε = 1: without public rows, with them alone, and with both."""
    lines = []
    for data, title in _TITLES.items():
        rows = [row for row in _study() if row["data"] == data]
        at_one: dict[str, list[float]] = {}
        for row in rows:
            if row["epsilon"] == 1:
                at_one.setdefault(row["name"], []).append(row["accuracy"])
        [public] = [row["public_only"] for row in rows if row["epsilon"] is None]
        lines.append((title, *map(_seeds, ([public], *[at_one[each] for each in _SHORT]))))
    return _table(("test accuracy, %", "public images only", *_SHORT), lines)


def ensembles() -> str:
    """Averages, votes and mean logits of the last weights, and the moving average beside them."""
    lines = []
    for row in _study():
        if "ensembles" not in row:
            continue
        title = _TITLES[row["data"]]
        lines.append((title, "moving average 0.999", _seeds([row["accuracy"]]), "", ""))
        lines.append((title, "last weights", _seeds([row["last"]]), "", ""))
        for name, found in row["ensembles"].items():
            values = [_seeds([found[each]]) for each in ("mean_weights", "vote", "mean_logits")]
            lines.append((title, name.replace("_", " "), *values))
    return _table(("data", "ensemble", "weights averaged", "majority vote", "mean logits"), lines)


def _study() -> Rows:
    return list(_kept("learn_table")["rows"].values())


_TITLES = {
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
    "cifar10 features: lite0 160": "CIFAR-10, frozen encoder",
}
_SHORT = ("cold", "warm", "warm + DOPE")


def paper_preset() -> str:
    """Noise of the paper preset by both accountants."""
    return _table(
        ("ε", "epochs", "rate", "steps", "σ (PLD)", "σ (RDP)"),
        [
            (
                f"{line['epsilon']:g}",
                str(line["epochs"]),
                f"{line['rate']:.4f}",
                str(line["steps"]),
                f"{line['noise']['PLD']:.3f}",
                f"{line['noise']['RDP']:.3f}",
            )
            for line in _results("paper_preset")["lines"]
        ],
    )


def releases() -> str:
    """Accuracy of classifiers that synthetic sets trained, and of what stands beside them."""
    grouped: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _kept("release_table")["rows"]:
        key = tuple(row[name] for name in ("data", "method", "epsilon", "relation"))
        if row["data"] in _DATA and (row["epsilon"] is not None or row["method"] in _REAL):
            grouped.setdefault(key, {})[row["classifier"]] = row

    def place(key: tuple[Any, ...]) -> tuple[float, ...]:
        return _place(_DATA, key[0]), _place(_METHODS, key[1]), key[2] or 0.0

    heads = ("data", "method", "ε", "relation", *_KINDS.values(), "no noise", "images", "seconds")
    lines = [_release_line(key, grouped[key]) for key in sorted(grouped, key=place)]
    return _table(heads, lines)


def release_summary() -> str:
    """SPS-G's images and a CNN that saw nothing else, beside the best that others published."""
    found = {
        (row["data"], row["epsilon"]): row
        for row in _kept("release_table")["rows"]
        if row["method"] == "sps-g" and row["classifier"] == "cnn"
    }
    lines = [
        (
            _DATA[data],
            *(_spread(found[data, each]) for each in (0.2, 1.0, 10.0)),
            *_PUBLISHED[data],
        )
        for data in _PUBLISHED
    ]
    heads = ("test accuracy, %", "ε = 0.2", "ε = 1", "ε = 10")
    return _table((*heads, "best published, ε = 1", "ε = 10"), lines)


_PUBLISHED = {"mnist": ("95.6", "98.1"), "fashion_mnist": ("81.7", "87.3")}  # DPImageBench


def _release_line(key: tuple[Any, ...], kinds: dict[str, Any]) -> tuple[str, ...]:
    data, method, epsilon, relation = key
    [first, *_] = kinds.values()
    judged = "encoder" if data == "cifar10" else "cnn"
    bound = kinds.get(judged, first).get("no_noise")
    return (
        _DATA[data],
        _METHODS.get(method, method),
        "none" if epsilon is None else f"{epsilon:g}",
        "" if epsilon is None else relation,
        *(_spread(kinds[kind]) if kind in kinds else "" for kind in _KINDS),
        _percent(bound),
        f"{first['images']:,}" if first["images"] else "",
        f"{first['seconds']:.0f}",
    )


_DATA = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR-10"}
_REAL = {"real": "all real images", "real-10000": "10,000 real images"}
_METHODS = {
    "sps-g": "SPS-G",
    "sps-plus": "SPS+",
    "sps": "SPS",
    "dp-mepf": "DP-MEPF (φ₁, φ₂)",
    "dp-mepf-1": "DP-MEPF (φ₁)",
    "dp-merf": "DP-MERF",
    "dp-logistic-pixels": "DP logistic regression of pixels",
    "dp-logistic-features": "DP logistic regression of features",
    **_REAL,
}
_KINDS = {
    "logistic": "logistic",
    "mlp": "MLP",
    "cnn": "CNN",
    "encoder": "fine-tuned encoder",
    "discriminant": "moments alone",
}


def _place(names: dict[str, str], name: str) -> int:
    return list(names).index(name) if name in names else len(names)


def _spread(row: dict[str, Any]) -> str:
    mean = _percent(row["accuracy"])
    return mean if row["std"] is None else f"{mean} ± {100 * row['std']:.1f}"


def release_imbalance() -> str:
    """By class, where classes go from large to small: released counts, and one size for all."""
    runs = [each for each in _kept("release_table")["runs"] if "by_class" in each]
    sizes = [f"{size:,}" for size in runs[0]["class_sizes"]] if runs else []
    rows = []
    for each in runs:
        shares = each["by_class"]["cnn"]
        values = (each["accuracies"]["cnn"], min(shares), *shares)
        method = "one size for all (N/C)" if each["method"].endswith("-even") else "released counts"
        rows.append((method, *map(_percent, values)))
    return _table(("moments over", "all classes", "worst", *sizes), rows)


def release_ablations() -> str:
    """One small table for each table of the papers."""
    body = _kept("release_ablations")
    tables = []
    for table, title in body["titles"].items():
        rows = [
            (each["row"], *(_percent(each["accuracies"].get(kind)) for kind in ("logistic", "cnn")))
            for each in body["runs"]
            if each["table"] == table
        ]
        if rows:
            tables.append(_table((title, "logistic", "CNN"), rows))
    return "\n".join(tables)


def continual() -> str:
    """Accuracy on the classes so far, after each stage; of a joint release, on all of them."""
    there = (RESULTS / "continual.json").exists()
    runs = _kept("continual")["runs"] if there else []
    stages = range(5)
    names = {
        "cumulative": "a CNN of all synthetic sets so far",
        "fine-tuned": "a CNN that went on with the newest set alone",
        "joint": "a CNN of one release of all classes",
    }
    rows = []
    for key, name in names.items():
        found = [each["accuracies"][key] for each in runs if key in each["accuracies"]]
        padded = [[None] * (len(stages) - len(each)) + each for each in found]
        cells = [[each[k] for each in padded if each[k] is not None] for k in stages]
        rows.append((name, *map(_seeds, cells)))
    return _table(("trained on", *(f"{2 * k + 2} classes" for k in stages)), rows)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _kept(name: str) -> dict[str, Any]:
    """The whole file of a study that keeps its runs."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def public_sets() -> str:
    """How good sets of synthetic public images are."""
    rows = [
        (
            each["name"],
            f"{each['made']:,}",
            _percent(each["cas"]),
            f"{each['frechet']:.3g}",
            f"{each['precision']:.2f}",
            f"{each['recall']:.2f}",
            _percent(each["memorisation"]),
            _percent(each["copies"]),
        )
        for each in _kept("public_ladder")["runs"]
        if each["kind"] == "set"
    ]
    head = ("set", "images", "CAS", "Fréchet", "precision", "recall", "nearer to seen", "copies")
    return _table(head, rows)


def public_ladder() -> str:
    """Table 1 of IDS."""
    return _public_study("ladder", "FashionMNIST, ε = 2")


def public_studies() -> str:
    """One small table for each table of the papers."""
    runs = [each for each in _kept("public_ladder")["runs"] if each["kind"] == "run"]
    names = dict.fromkeys(each["study"] for each in runs if each["study"] != "ladder")
    return "\n".join(_public_study(name, name) for name in names)


def _public_study(study: str, title: str) -> str:
    by_name: dict[str, Rows] = {}
    for each in _kept("public_ladder")["runs"]:
        if each["kind"] == "run" and each["study"] == study:
            by_name.setdefault(each["name"], []).append(each)
    rows = [
        (
            name,
            _seeds([each["before_private_steps"] for each in runs]),
            _seeds([each["accuracy"] for each in runs]),
        )
        for name, runs in by_name.items()
    ]
    return _table((title, "after the warm-up", "after private steps"), rows)


def beyond_images() -> str:
    """Text and tables by the columns of DOPE-SGD."""
    by_place: dict[tuple[str, float], dict[tuple[str, str], Rows]] = {}
    for each in _kept("beyond_images")["runs"]:
        line = by_place.setdefault((each["data"], each["epsilon"]), {})
        line.setdefault((each["method"], each["scenario"]), []).append(each)
    names = {"wikitext-2": "WikiText-2, perplexity", "location": "Location-30", "people": "People"}
    columns = {
        (method, scenario): f"{name} {words}"
        for method, name in (("dp-sgd", "DP-SGD"), ("dope", "DOPE"))
        for scenario, words in _SCENARIOS.items()
    }
    rows = [
        (
            names[data],
            f"{epsilon:g}",
            _public_alone([run for runs in line.values() for run in runs]),
            *(_beyond(line.get(column, [])) for column in columns),
        )
        for (data, epsilon), line in sorted(by_place.items())
    ]
    return _table(("data", "ε", "public alone", *columns.values()), rows)


_SCENARIOS = {
    "cold": "cold",
    "warm": "warm",
    "cold-extended": "cold-ext.",
    "extended": "warm-ext.",
}


def _public_alone(runs: Rows) -> str:
    """After the warm-up, which runs of one seed share."""
    known = {run["seed"]: run for run in runs if run["public_alone"] is not None}
    return _beyond([{**run, "value": run["public_alone"]} for run in known.values()])


def _beyond(runs: Rows) -> str:
    if not runs:
        return ""
    value = sum(run["value"] for run in runs) / len(runs)
    text = f"{value:.0f}" if runs[0]["measure"] == "perplexity" else f"{100 * value:.1f}"
    return f"{text} ({len(runs)})"


def public_cost() -> str:
    """What surrounds a network on the public side costs."""
    found = _results("public_cost")
    rows = (
        ("Heun's sampler over the evaluations of its U-Net", "sampler_over_network"),
        ("a training step over a pass forward and back", "training_over_network"),
        ("a step with SAM over one with SGD", "sam_over_sgd"),
        ("peak memory of 1,000 images over that of 100", "peak_ratio"),
    )
    return _table(("what", "ratio"), [(name, f"{found[key]:.2f} ×") for name, key in rows])


def release_cost() -> str:
    """What releases and synthesis cost."""
    found = _results("release_cost")
    names = {
        "summary_sps_g_over_forward": "summarising pass of SPS-G over the encoder's forward pass",
        "summary_sps_over_forward": "summarising pass of SPS (all layers) over the same",
        "pixel_step_over_encoder": "a step of pixel optimisation over the encoder's two passes",
    }
    rows = [(text, f"{found[name]:.2f} ×") for name, text in names.items()]
    rows += [
        (
            "images per second by pixels, 300 iterations",
            _two(found["pixel_images_per_second_300_iterations"]),
        ),
        (
            "images per second by SPS-G, training included, of 10,000",
            _two(found["images_per_second_of_10000"]),
        ),
        ("images per second from its generator", _two(found["sampled_per_second"])),
        (
            "likewise, where released moments must agree",
            _two(found["sampled_and_judged_per_second"]),
        ),
    ]
    return _table(("figure", "measured"), rows)


def choosing() -> str:
    """At ε = 1: what can be shared, what was public, and what it was worth."""
    lines = []
    for data, title in _TITLES.items():
        lines += [(title, *each) for each in (*_models_at_one(data), *_sets_at_one(data))]
    heads = ("data", "you share", "public", "method", "test accuracy, %", "minutes")
    return _table(heads, lines)


def _models_at_one(data: str) -> list[tuple[str, ...]]:
    found: dict[str, Rows] = {}
    for row in _study():
        if row["data"] == data and row["epsilon"] == 1:
            found.setdefault(row["name"], []).append(row)
    frozen = "frozen" in _TITLES[data]
    pretrained = "a pretrained encoder" if frozen else ""
    public = {"cold": (pretrained or "nothing"), "warm": "4% of the images"}
    public["warm + DOPE"] = public["warm"]
    shared = "a linear model" if frozen else "a small CNN"
    [alone] = [row for row in _study() if row["data"] == data and row["epsilon"] is None]
    before = (shared, _both(public["warm"], pretrained), "public images alone")
    return [
        (*before, _seeds([alone["public_only"]]), ""),
        *(_model_line(name, found[name], shared, public[name], pretrained) for name in _SHORT),
    ]


def _model_line(
    name: str, rows: Rows, shared: str, public: str, pretrained: str
) -> tuple[str, ...]:
    return (
        shared,
        public if name == "cold" else _both(public, pretrained),
        "`dope`, warm" if "DOPE" in name else f"`dp-sgd`, {name}",
        _seeds([row["accuracy"] for row in rows]),
        _minutes([row["seconds"] for row in rows]),
    )


def _both(one: str, other: str) -> str:
    return f"{one}, {other}" if other else one


def _sets_at_one(data: str) -> list[tuple[str, ...]]:
    rows = {
        (row["method"], row["classifier"]): row
        for row in _kept("release_table")["rows"]
        if row["data"] == data and row["epsilon"] == 1 and row["relation"] == "add-remove"
    }
    lines = []
    for method, title in _METHODS.items():
        linear = method.startswith("dp-logistic")
        row = rows.get((method, "logistic" if linear else "cnn"))
        if row is not None:
            shared = "a linear model" if linear else "images; a CNN learned from them"
            public = "nothing" if method in _WITHOUT_PUBLIC else "photos and letters"
            name = title if linear else f"`{method}`"
            lines.append((shared, public, name, _spread(row), _minutes([row["seconds"]])))
    return lines


_WITHOUT_PUBLIC = ("dp-merf", "dp-logistic-pixels")


def _minutes(seconds: list[float]) -> str:
    return f"{sum(seconds) / len(seconds) / 60:.1f}"


def choosing_epsilon() -> str:
    """FashionMNIST at every ε that was tried."""
    models = {
        f"{name}, a small CNN": {
            each: _seeds([row["accuracy"] for row in _study() if _is(row, name, each)])
            for each in _EPSILONS
        }
        for name in _SHORT
    }
    made = {
        _METHODS[method] + ("" if kind == "logistic" else f", {_KINDS[kind]}"): {
            row["epsilon"]: _spread(row)
            for row in _kept("release_table")["rows"]
            if (row["data"], row["method"], row["classifier"]) == ("fashion_mnist", method, kind)
            and row["relation"] == "add-remove"
        }
        for method, kind in (
            *(("sps-g", "cnn"), ("sps-g", "discriminant")),
            *(("dp-logistic-pixels", "logistic"), ("dp-logistic-features", "logistic")),
        )
    }
    lines = [
        (name, *(found.get(each, "") for each in _EPSILONS))
        for name, found in (models | made).items()
    ]
    return _table(("FashionMNIST", *(f"ε = {each:g}" for each in _EPSILONS)), lines)


_EPSILONS = (0.2, 1.0, 2.0, 4.0, 10.0)


def _is(row: dict[str, Any], name: str, epsilon: float) -> bool:
    return (row["data"], row["name"], row["epsilon"]) == ("fashion_mnist", name, epsilon)


def choosing_noise() -> str:
    """Noise of one release, in units of the clip norm, for each image of a class."""
    sigmas = {
        row["epsilon"]: row["pld"]
        for row in _results("calibration")["one_shot_releases"]
        if row["releases"] == 1
    }
    sizes = (100, 500, 2000, 6000, 50_000)
    lines = [
        (f"{epsilon:g}", f"{sigma:.2f}", *(f"{sigma / size:.2g}" for size in sizes))
        for epsilon, sigma in sigmas.items()
    ]
    return _table(("ε", "σ", *(f"{size:,} in a class" for size in sizes)), lines)


def studies_so_far() -> str:
    """How many runs of every study are there."""
    learned = len(_study())
    lines = [("`learn_table.py`", "all rows", str(learned))]
    released = Counter(each["data"] for each in _kept("release_table")["runs"])
    lines += [("`release_table.py`", _DATA.get(data, data), str(n)) for data, n in released.items()]
    ladder = Counter(each.get("study", each["kind"]) for each in _kept("public_ladder")["runs"])
    lines += [("`public_ladder.py`", name, str(count)) for name, count in ladder.items()]
    beyond = Counter(each["data"] for each in _kept("beyond_images")["runs"])
    lines += [("`beyond_images.py`", name, str(count)) for name, count in beyond.items()]
    lines += [("`release_ablations.py`", name, str(count)) for name, count in _ablations().items()]
    return _table(("script", "part", "runs there"), lines)


def _ablations() -> dict[str, int]:
    if not (RESULTS / "release_ablations.json").exists():
        return {"all tables": 0}
    body = _kept("release_ablations")
    counts = Counter(each["table"] for each in body["runs"])
    return {body["titles"][table]: count for table, count in counts.items()}


def audits() -> str:
    """Audited lower bounds beside claims."""
    rows = [row for row in _kept("audit_table")["runs"] if row["bug"] == "none"]
    names = dict.fromkeys((row["name"], row["kind"]) for row in rows)
    epsilons = sorted({row["epsilon"] for row in rows})

    def cell(name: str, epsilon: float) -> str:
        found = [row for row in rows if (row["name"], row["epsilon"]) == (name, epsilon)]
        return f"{math.floor(100 * found[0]['lower_bound']) / 100:.2f}" if found else ""

    lines = [(name, kind, *(cell(name, each) for each in epsilons)) for name, kind in names]
    return _table(("audited", "by", *(f"ε = {each:g}" for each in epsilons)), lines)


def audited_bugs() -> str:
    """How many planted bugs an audit found."""
    rows = [row for row in _kept("audit_table")["runs"] if row["bug"] != "none"]
    bugs = dict.fromkeys(row["bug"] for row in rows)
    lines = []
    for bug in bugs:
        same = [row for row in rows if row["bug"] == bug]
        lines.append((bug, str(len(same)), str(sum(row["broken"] for row in same))))
    return _table(("planted", "audits", "that called it broken"), lines)


def secure_noise() -> str:
    """What it costs."""
    found = _results("secure_noise")
    lines = [
        ("a number of the usual noise", f"{found['usual_nanoseconds']:.0f} ns"),
        ("a number of secure noise", f"{found['secure_nanoseconds']:.0f} ns"),
        ("ratio of both, side by side", f"{found['ratio']:g} ×"),
        (
            f"a release of {found['rows']:,} rows of {found['size']} numbers, secure over usual",
            f"{found['release_ratio']:.2f} ×",
        ),
    ]
    return _table(("one thread", ""), lines)


def attacks() -> str:
    """Membership inference at every level, beside the most that is allowed."""
    rows = [row for row in _kept("attacks")["runs"] if row["attack"] == "membership"]
    lines = [
        (
            row["level"],
            f"{100 * row['accuracy_on_others']:.1f}%",
            name,
            *(_attack_cell(found["figures"][kind]) for kind in ("auc", "hits_at_0.01")),
            _attack_cell(found["figures"]["hits_at_0.001"]),
        )
        for row in rows
        for name, found in row["attacks"].items()
    ]
    head = ("models", "test accuracy", "attack", "AUC", "found at 1% false alarms", "at 0.1%")
    return _table(head, lines)


def extractions() -> str:
    """Nearest neighbours of synthetic images."""
    rows = [row for row in _kept("attacks")["runs"] if row["attack"] == "extraction"]
    lines = [
        (
            row["level"],
            f"{row['nearer']:.3f} ({row['nearer_by_chance'][0]:.3f} to "
            f"{row['nearer_by_chance'][1]:.3f})",
            f"{row['copies']:.3f}",
            f"{row['chance_copies']:.3f}",
            _attack_cell(row["attacks"]["distance"]["figures"]["auc"]),
        )
        for row in rows
    ]
    head = (
        *("synthetic images", "nearer to a member (by chance)", "copies of members"),
        *("of others", "AUC by distance"),
    )
    return _table(head, lines)


def _attack_cell(figure: dict[str, Any]) -> str:
    most = "" if figure["allowed"] is None else f"; ≤ {figure['allowed']:.3f}"
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f}{most})"


def fuzz() -> str:
    """One line for every target, and one for all."""
    found = _kept("fuzz")
    names = ("cases", "accepted", "refused", "crashes")
    lines = {**found["targets"], "all": {name: found[name] for name in names}}
    rows = [(name, *(f"{line[each]:,}" for each in names)) for name, line in lines.items()]
    guided = _kept("guided_fuzz")
    below = (
        f"Guided by coverage: {guided['cases']:,} cases of {guided['targets']} targets, "
        f"crashes: {guided['crashes']}."
    )
    return f"{_table(('what was damaged', *names), rows)}\n{below}\n"


def _two(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def hybrid() -> str:
    """Both parents and the hybrid, each with all of ε; one line for every set and ε."""
    runs = _kept("hybrid")["runs"]
    shares = sorted({run["share"] for run in runs} - {"", "auto"})
    columns = [("release", ""), ("training", ""), ("hybrid", "auto")]
    columns += [("hybrid", share) for share in shares]
    cells: dict[tuple[str, float], dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for run in runs:
        line = cells.setdefault((run["data"], run["epsilon"]), {})
        line.setdefault((run["method"], run["share"]), []).append(run)
    head = ("", "ε", "release alone", "training alone", "proposed share", *shares)
    rows = [
        (
            _HYBRID_SETS[data],
            f"{epsilon:g}",
            *[_hybrid_cell(line.get(each, [])) for each in columns],
        )
        for (data, epsilon), line in sorted(cells.items(), key=lambda item: _hybrid_order(item[0]))
    ]
    return _table(head, rows)


def _hybrid_order(line: tuple[str, float]) -> tuple[int, float]:
    return list(_HYBRID_SETS).index(line[0]), line[1]


def _hybrid_cell(runs: list[dict[str, Any]]) -> str:
    """The accuracy; of a proposed share, which it was."""
    found = _seeds([run["accuracies"]["test"] for run in runs])
    proposed = {run["release"]["share"] for run in runs if run["share"] == "auto"}
    return f"{found} ({', '.join(f'{each:g}' for each in proposed)})" if proposed else found


_HYBRID_SETS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "letters": "letters"}


TABLES: dict[str, Callable[[], str]] = {
    "hybrid": hybrid,
    "audits": audits,
    "audited_bugs": audited_bugs,
    "secure_noise": secure_noise,
    "attacks": attacks,
    "extractions": extractions,
    "fuzz": fuzz,
    "noise": noise,
    "demo": demo,
    "figures": figures,
    "faults": faults,
    "killed_jobs": killed_jobs,
    "step_cost": step_cost,
    "learn_mnist": lambda: learn("mnist"),
    "learn_fashion_mnist": lambda: learn("fashion_mnist"),
    "learn_cifar10": lambda: learn("cifar10 features: lite0 160"),
    "learn_summary": learn_summary,
    "ensembles": ensembles,
    "paper_preset": paper_preset,
    "releases": releases,
    "release_summary": release_summary,
    "release_imbalance": release_imbalance,
    "release_ablations": release_ablations,
    "continual": continual,
    "release_cost": release_cost,
    "public_sets": public_sets,
    "public_ladder": public_ladder,
    "public_studies": public_studies,
    "public_cost": public_cost,
    "beyond_images": beyond_images,
    "choosing": choosing,
    "choosing_epsilon": choosing_epsilon,
    "choosing_noise": choosing_noise,
    "studies_so_far": studies_so_far,
}


def _results(name: str) -> dict[str, Any]:
    results: dict[str, Any] = _kept(name)["results"]
    return results


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Write, or fail if a page is stale."""
    stale = [page for page in PAGES if rendered(page.read_text()) != page.read_text()]
    if "--check" in sys.argv:
        raise SystemExit(f"stale: {', '.join(page.name for page in stale)}" if stale else 0)
    for page in stale:
        page.write_text(rendered(page.read_text()))
        print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
