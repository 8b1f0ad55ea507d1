"""A classifier as ONNX, checked against the network that it came from."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privet.errors import ConfigError

INPUT, OUTPUT = "images", "logits"
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_LARGEST = 2**31 - 1  # bytes of a protocol buffer
_TOLERANCE = 1e-3


def onnx_bytes(
    module: nn.Module, image_shape: tuple[int, int, int], properties: Mapping[str, str]
) -> bytes:
    """The content of an .onnx file: weights and all, for any number of images at a time.

    Args:
        module: from `images`, float32 (N, C, H, W) in [-1, 1], to `logits`.
        image_shape: height, width and channels.
        properties: texts that the file carries under their names.
    """
    check_installed()
    import onnx

    size = sum(each.numel() * each.element_size() for each in module.state_dict().values())
    if size > _LARGEST:
        raise ConfigError(f"The model has {size:,} bytes, over 2 GiB: use --to safetensors.")
    model = _translated(module, _random_images(image_shape, 2))
    _forget_machine(model)
    onnx.helper.set_model_props(model, dict(properties))
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    for count in (1, 3):
        _require_same(content, module, _random_images(image_shape, count))
    return content


def check_installed() -> None:
    """Refuse to go on if a package that ONNX export needs is missing."""
    missing = next((name for name in _PACKAGES if find_spec(name) is None), None)
    if missing is not None:
        raise ConfigError(f"{missing} is not installed; run pip install 'privet[onnx]' to get it.")


def _random_images(image_shape: tuple[int, int, int], count: int) -> Tensor:
    height, width, channels = image_shape
    generator = torch.Generator().manual_seed(count)
    return 2 * torch.rand(count, channels, height, width, generator=generator) - 1


def _translated(module: nn.Module, images: Tensor) -> Any:
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                module,
                (images,),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:
        raise ConfigError(
            f"This model has no form in ONNX ({type(error).__name__}): use --to safetensors."
        ) from error
    assert program is not None
    return program.model_proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the remarks of the exporter on itself and on packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _forget_machine(message: Any) -> None:
    """Remove traces of where each operation came from: they name files of whoever exports."""
    for field, value in message.ListFields():
        if field.name == "metadata_props":
            message.ClearField(field.name)
        elif field.message_type is not None:
            for each in value if isinstance(value, list) or hasattr(value, "add") else [value]:
                _forget_machine(each)


def _require_same(content: bytes, module: nn.Module, images: Tensor) -> None:
    """Refuse an ONNX file whose outputs differ from those of the network."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    [found] = session.run([OUTPUT], {INPUT: images.numpy()})
    with torch.no_grad():
        wanted = module(images).numpy()
    if not np.allclose(found, wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
        raise ConfigError(
            "In ONNX this model would answer differently, so nothing was written: use --to "
            "safetensors."
        )
