"""The tiny policy's tokenizer and model."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from openenv.train.agents.tiny import build_model, build_tokenizer, words_of

CHOICES = ["left", "turn left", "12", "-1", '{"a": "b c"}']
TEXTS = ["ball 12 row 113", "🟩🟩⬛ hello! a_b", "Ünïcode", "ball 3"]


def test_the_vocabulary_is_the_words_each_once() -> None:
    tokenizer = build_tokenizer(CHOICES, TEXTS)
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    assert words[:13] == ["<pad>", "<end>", "<unknown>", *"0123456789"]
    assert words[13:] == [
        *("left", "turn", "-", "{", '"', "a", ":", "b", "c", "}", "ball", "row", "🟩", "⬛", "hello", "!", "a_b"),
        *("Ünïcode", "turn left", "12", "-1", '{"a": "b c"}'),
    ]


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_is_one_token_that_is_read_back(choice: str) -> None:
    tokenizer = build_tokenizer(CHOICES, TEXTS)
    (token,) = tokenizer.encode(choice)
    assert tokenizer.decode([token], skip_special_tokens=True) == choice


def test_words_digits_and_symbols_are_tokens() -> None:
    tokenizer = build_tokenizer(CHOICES, TEXTS)
    assert tokenizer.tokenize("ball 12\nrow 121! left🟩⬛ other") == [
        *("ball", "12", "row", "1", "2", "1", "!", "left", "🟩", "⬛", "<unknown>"),
    ]
    assert tokenizer.encode("") == []


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(CHOICES, TEXTS)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path))
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert (loaded.pad_token, loaded.eos_token, loaded.unk_token) == ("<pad>", "<end>", "<unknown>")
    text = "turn left 12 hello! 🟩 other"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@given(st.lists(st.text(max_size=30), max_size=5))
def test_every_word_of_the_texts_is_known(texts: list[str]) -> None:
    tokenizer = build_tokenizer([], texts)
    ids = tokenizer.encode(" ".join(texts))
    assert tokenizer.unk_token_id not in ids
    assert set(words_of(texts)) == {tokenizer.convert_ids_to_tokens(token) for token in ids}


def test_the_model_is_small_and_made_from_its_seed(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(["left", "stay", "right"], ["ball 1 paddle 2 row 3"])
    state = torch.random.get_rng_state()
    one, same, other = (build_model(tokenizer, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state()), "the caller's randomness was touched"
    assert 10_000 < sum(parameter.numel() for parameter in one.parameters()) < 13_000
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)
    one.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(str(tmp_path))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), loaded.parameters(), strict=True))


def test_the_model_can_be_made_larger() -> None:
    model = build_model(build_tokenizer(["left"], []), hidden=64, layers=3, seed=1)
    assert (model.config.hidden_size, model.config.num_hidden_layers, model.config.num_attention_heads) == (64, 3, 4)


@pytest.mark.parametrize("spread", [0.02, 0.05])
def test_the_weights_spread_as_asked(spread: float) -> None:
    model = build_model(build_tokenizer(["left"], []), hidden=64, layers=1, seed=1, initializer_range=spread)
    assert model.model.layers[0].mlp.up_proj.weight.std().item() == pytest.approx(spread, rel=0.05)
