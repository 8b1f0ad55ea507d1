"""Tables of what things cost in time, memory and noise, and of the demo."""

from __future__ import annotations

from table_text import results, table


def figures() -> str:
    """One line for every measured claim."""
    total, crash = results("clipped_sum"), results("crash_ledger")
    start = results("startup")["ratio_to_import_torch"]
    step = results("step_overhead")["milliseconds_median"]
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
            f"{results('calibration')['slowest_seconds']:.1f} s",
        ),
        ("ledger per step", f"{step['ledger']:.1f} ms"),
        ("noise for 2.7 million coordinates", f"{step['noise']:.0f} ms"),
        (
            "processes killed; results out, counted, missing",
            f"{crash['kills']}; {crash['witnessed_results']:,}, {crash['counted_results']:,}, "
            f"{len(crash['violations'])}",
        ),
    )
    return table(("figure", "measured"), rows)


def _pair(values: dict[str, float], one: str, other: str) -> str:
    return f"{values[one]:.2f} and {values[other]:.2f} ×"


def step_cost() -> str:
    """One line for every measured ratio, with what was asked of it."""
    found = results("step_cost")
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
    return table(("figure", "measured", "aim"), rows)


def public_cost() -> str:
    """What surrounds a network on the public side costs."""
    found = results("public_cost")
    rows = (
        ("Heun's sampler over the evaluations of its U-Net", "sampler_over_network"),
        ("a training step over a pass forward and back", "training_over_network"),
        ("a step with SAM over one with SGD", "sam_over_sgd"),
        ("peak memory of 1,000 images over that of 100", "peak_ratio"),
    )
    return table(("what", "ratio"), [(name, f"{found[key]:.2f} ×") for name, key in rows])


def release_cost() -> str:
    """What releases and synthesis cost."""
    found = results("release_cost")
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
    return table(("figure", "measured"), rows)


def _two(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def demo() -> str:
    """What the demo printed, on two cores."""
    found = results("demo")
    score = {name: f"{100 * each:.1f}" for name, each in found["test_accuracy"].items()}
    return table(
        ("the demo, test accuracy on 500 digits, %", ""),
        [
            ("private classifier: DOPE on a frozen encoder of glyphs", score["classifier"]),
            ("CNN that saw private synthetic digits alone", score["images"]),
            ("the same CNN, of the 500 public digits", score["public"]),
            ("the same CNN, of the private digits, without privacy", score["real"]),
            ("seconds of computing, on two cores", f"{found['seconds']:.0f}"),
        ],
    )


def noise() -> str:
    """Noise of one-shot releases by both accountants."""
    rows = results("calibration")["one_shot_releases"]
    chosen = [row for row in rows if row["releases"] in (1, 5)]
    return table(
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


def paper_preset() -> str:
    """Noise of the paper preset by both accountants."""
    return table(
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
            for line in results("paper_preset")["lines"]
        ],
    )
