"""The encoder that comes with Privet: it has seen characters of open fonts, and nobody's images."""

from __future__ import annotations

from importlib import resources

from safetensors.torch import load

from privet.models.conv_encoder import ConvEncoder

_WEIGHTS = "weights/glyphs.safetensors"


def glyph_encoder() -> ConvEncoder:
    """Load the encoder that comes with Privet, for grey images of any size.

    It was trained on images of 28×28 pixels, and may be used as it is or trained further.
    `scripts/glyph_encoder.py` made its weights from `privet.public.glyph_rows` and
    `procedural_rows`.
    """
    network = ConvEncoder(1)
    weights = load((resources.files("privet.models") / _WEIGHTS).read_bytes())
    network.load_state_dict(
        {name: each.to(network.state_dict()[name]) for name, each in weights.items()}
    )
    return network.eval()
