"""GPT-2-style models from local folders, over a vocabulary of words."""

import json

import pytest
import torch

from privet.errors import ConfigError
from privet.models import pretrained_words, teach_words

transformers = pytest.importorskip("transformers")


def config(**settings):
    return transformers.GPT2Config(
        vocab_size=30, n_positions=40, n_embd=8, n_layer=2, n_head=2, **settings
    )


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    place = tmp_path / "gpt2"
    transformers.GPT2LMHeadModel(config()).save_pretrained(place)
    return place


def test_plain_layers_say_the_same_as_the_network(folder):
    original = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    words = torch.randint(30, (3, 7))
    expected = original(words).logits
    model = pretrained_words(folder, 30, 7).eval()
    with torch.no_grad():
        model.network.transformer.wte.weight.copy_(original.transformer.wte.weight)
    assert torch.allclose(model(words), expected, atol=1e-5)
    kinds = {type(layer) for layer in model.modules() if list(layer.parameters(recurse=False))}
    assert kinds == {torch.nn.Linear, torch.nn.Embedding, torch.nn.LayerNorm}


def test_another_number_of_words(folder):
    model = pretrained_words(folder, 12, 35)
    assert model(torch.randint(12, (2, 35))).shape == (2, 35, 12)
    assert pretrained_words(config(), 12, 35)(torch.randint(12, (2, 35))).shape == (2, 35, 12)


def test_words_start_as_the_mean_of_their_pieces(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Punctuation, Sequence, Whitespace

    tokenizer = Tokenizer(WordLevel({"a": 3, "-": 4, "b": 5, "?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Sequence([Whitespace(), Punctuation()])
    tokenizer.save(str(folder / "tokenizer.json"))
    pieces = transformers.GPT2LMHeadModel.from_pretrained(folder).transformer.wte.weight
    model = pretrained_words(folder, 3, 7)
    teach_words(model, folder, ("b", "a-b", "a"))
    table = model.network.transformer.wte.weight
    assert torch.allclose(table[0], pieces[5])
    assert torch.allclose(table[1], pieces[3:6].mean(0))


def test_what_cannot_be_read_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="takes 40 words at most"):
        pretrained_words(folder, 9, 41)
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        pretrained_words(tmp_path / "nowhere", 9, 4)
    (folder / "model.safetensors").rename(folder / "elsewhere")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(ConfigError, match=r"has no model\.safetensors"):
        pretrained_words(folder, 9, 4)
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, "model_type": "bert"}))
    with pytest.raises(ConfigError, match="The model is a 'bert'"):
        pretrained_words(folder, 9, 4)
