"""Text as sequences of words, with a vocabulary of public ones."""

import numpy as np
import pytest

from privet.data.text import LENGTH, TextSet, numbered, read_sequences, vocabulary_of
from privet.errors import DataError


def written(tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_word_is_in_one_sequence_and_lines_end(tmp_path):
    text = "a b c\n\n" * 20
    found = read_sequences(written(tmp_path, text))
    assert found.shape == (80 // LENGTH, LENGTH)
    assert found[0, :5].tolist() == ["a", "b", "c", "<eos>", "a"]
    assert found.ravel().tolist() == (["a", "b", "c", "<eos>"] * 20)[: found.size]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("one line without an end " * 30, "has no newline"),
        ("too\nshort\n", "is shorter than one sequence"),
        (b"\x89PNG\r\n\x1a\n\x00\x00" * 40, "not a readable text in UTF-8"),
        (b"a\x00b\n" * 40, "is no plain text; it has control characters"),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(tmp_path, content, sentence):
    with pytest.raises(DataError, match=sentence):
        read_sequences(written(tmp_path, content))


def test_no_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="is no file"):
        read_sequences(tmp_path / "nowhere.txt")


def test_a_vocabulary_has_the_most_frequent_words(monkeypatch):
    monkeypatch.setattr("privet.data.text.MOST_WORDS", 2)
    words = np.array([["b", "a", "b", "c", "<eos>", "<unk>", "a", "b"]], dtype=object)
    found = vocabulary_of(words)
    assert found == ("<unk>", "<blank>", "<eos>", "b", "a")
    assert numbered(words, found).tolist() == [[3, 4, 3, 0, 2, 0, 4, 3]]


def test_a_word_that_looks_like_a_blank_is_unknown():
    assert numbered(np.array([["<blank>"]], dtype=object), ("<unk>", "<blank>")).tolist() == [[0]]


def test_inputs_of_a_causal_task_end_one_word_earlier():
    words = np.array([["a", "b", "a"]], dtype=object)
    vocabulary = ("<unk>", "<blank>", "<eos>", "a")
    columns = TextSet(words, vocabulary, causal=True).columns()
    assert columns["labels"].tolist() == [[3, 0, 3]]
    assert columns["images"].tolist() == [[1, 3, 0]]
    assert TextSet(words, vocabulary, causal=False).columns()["images"].tolist() == [[3, 0, 3]]
