"""GPT-2-style language models of the `transformers` package, for private fine-tuning on words.

All that learns sits in nn.Embedding, nn.Linear and nn.LayerNorm layers. The network's own pieces of
words give way to a vocabulary of whole ones; each word starts as the mean of its pieces.

References:
    Radford et al., Language Models are Unsupervised Multitask Learners, 2019; Nasr et al. 2023,
    Table 6 (private fine-tuning with public gradients).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from privet.errors import ConfigError
from privet.models.layers import check_sizes
from privet.models.transformer import quiet, transformers_package

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

KIND = "gpt2"


class PretrainedWords(nn.Module):
    """Logits (N, T, words) of sequences (N, T) of word numbers, by a network of `transformers`.

    Args:
        network: a GPT-2 with a head over words; its layers become plain ones.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        for layer in network.transformer.h:
            for part in (layer.attn, layer.mlp):
                for name in ("c_attn", "c_proj", "c_fc"):
                    if hasattr(part, name):
                        setattr(part, name, _linear(getattr(part, name)))

    def forward(self, words: Tensor) -> Tensor:
        """Logits of the word after each position."""
        places = torch.arange(words.shape[1], device=words.device).expand(words.shape)
        # The plain kernel is exact in double precision and known to torch.func.vmap.
        with sdpa_kernel(SDPBackend.MATH):
            out = self.network(input_ids=words, position_ids=places, use_cache=False)
        logits: Tensor = out.logits
        return logits


def pretrained_words(
    source: str | Path | PreTrainedConfig, num_words: int, length: int
) -> PretrainedWords:
    """A GPT-2 from a local folder, or from a configuration, with an untrained table of words.

    Args:
        source: a folder with config.json and safetensors, as `save_pretrained` writes it, or a
            configuration, which gives random weights.
        num_words: in the vocabulary.
        length: of the longest sequence.
    """
    check_sizes(num_words=num_words, length=length)
    transformers = transformers_package()
    if not isinstance(source, str | Path):
        config = copy.deepcopy(source)
        _check(config, length)
        config.vocab_size = num_words
        config.bos_token_id = config.eos_token_id = None
        network = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
        return PretrainedWords(network)
    with quiet(transformers):
        network = _pretrained(transformers, Path(source))
        _check(network.config, length)
        network.resize_token_embeddings(num_words, mean_resizing=False)
    nn.init.normal_(network.transformer.wte.weight, std=network.config.initializer_range)
    return PretrainedWords(network)


def teach_words(model: PretrainedWords, folder: str | Path, words: tuple[str, ...]) -> None:
    """Let each word start as the mean of its pieces, where the folder has a tokenizer.json."""
    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        return
    transformers_package()
    from tokenizers import Tokenizer

    tokenizer, transformers = Tokenizer.from_file(str(file)), transformers_package()
    with quiet(transformers), torch.no_grad():
        pieces = _pretrained(transformers, Path(folder)).transformer.wte.weight
        for number, word in enumerate(words):
            own = [each for each in tokenizer.encode(f" {word}").ids if each < len(pieces)]
            if own:
                model.network.transformer.wte.weight[number] = pieces[own].mean(0)


def _pretrained(transformers: Any, folder: Path) -> Any:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} has no config.json; give a folder of a saved GPT-2.")
    _check(transformers.AutoConfig.from_pretrained(folder, local_files_only=True), 1)
    try:
        network = transformers.GPT2LMHeadModel.from_pretrained(
            folder, attn_implementation="sdpa", local_files_only=True, use_safetensors=True
        )
    except OSError:
        raise ConfigError(
            f"{folder} has no model.safetensors; save the model again with safetensors."
        ) from None
    return network.float()


def _check(config: Any, length: int) -> None:
    if config.model_type != KIND:
        raise ConfigError(f"The model is a {config.model_type!r}; give a GPT-2.")
    if config.n_positions < length:
        raise ConfigError(
            f"The model takes {config.n_positions} words at most; give one that takes {length}."
        )


def _linear(layer: Any) -> nn.Linear:
    """The same linear map as a plain `nn.Linear`."""
    inputs, outputs = layer.weight.shape
    plain = nn.Linear(inputs, outputs)
    with torch.no_grad():
        plain.weight.copy_(layer.weight.T)
        plain.bias.copy_(layer.bias)
    return plain
