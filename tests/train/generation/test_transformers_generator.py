"""Sampling with the cache must be what the model itself computes from scratch."""

from collections.abc import Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3ForCausalLM

from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.generation.sampling import Sampling
from openenv.train.generation.transformers_generator import TransformersGenerator

VOCABULARY = 20
TOKEN = st.integers(0, VOCABULARY - 1)


def make_model(layers: int = 2) -> Qwen3ForCausalLM:
    tokenizer = build_tokenizer([], ["a b c d e f g"])
    assert len(tokenizer) == VOCABULARY
    model = build_model(tokenizer, layers=layers, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():  # so that what is attended to makes a difference
            if parameter.dim() == 2:
                parameter.mul_(10)
    return model


MODEL = make_model()


def make_generator(temperature: float = 1.0, seed: int = 1) -> TransformersGenerator:
    return TransformersGenerator(MODEL, 0, Sampling(temperature), torch.Generator().manual_seed(seed))


def own_logprobs(tokens: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """The model's log-probabilities of what follows some tokens, computed at once."""
    with torch.no_grad():
        logits: torch.Tensor = MODEL(input_ids=torch.tensor([list(tokens)])).logits[0, -1]
    return (logits / temperature).log_softmax(-1)


def assert_close(logprob: float, expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(logprob), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rows_of_any_lengths_are_sampled_as_if_each_were_alone(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    temperature = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    generator = make_generator(temperature)
    texts: list[list[int]] = [[] for _ in range(count)]
    shortest = 1
    for _ in range(data.draw(st.integers(1, 4))):
        fed = data.draw(st.lists(st.lists(TOKEN, min_size=shortest, max_size=6), min_size=count, max_size=count))
        if not any(fed):
            continue
        generator.feed(fed)
        shortest = 0
        texts = [text + new for text, new in zip(texts, fed, strict=True)]
        tokens, logprobs = generator.sample()
        for text, token, logprob in zip(texts, tokens, logprobs, strict=True):
            assert_close(logprob, own_logprobs(text, temperature)[token])
        kept = data.draw(st.lists(st.sampled_from(range(count)), min_size=1, unique=True))
        generator.keep(kept)
        texts = [texts[row] for row in kept]
        count = len(kept)


def test_an_answer_is_what_was_fed_token_by_token() -> None:
    generator = make_generator()
    prompts = [[5, 6, 7], [8], [9, 10]]
    generator.feed(prompts)
    completions = generator.generate([6, 1, 4], stop_ids=frozenset({3}))
    for prompt, answer, limit in zip(prompts, completions, [6, 1, 4], strict=True):
        assert 1 <= len(answer.token_ids) == len(answer.logprobs) <= limit
        assert answer.ended == (answer.token_ids[-1] == 3)
        assert 3 not in answer.token_ids[:-1]
        assert answer.ended or len(answer.token_ids) == limit
        for position, (token, logprob) in enumerate(zip(answer.token_ids, answer.logprobs, strict=True)):
            expected = own_logprobs(prompt + answer.token_ids[:position])[token]
            assert_close(logprob, expected)
    # The last token was not fed yet: feeding it goes on where the answer ended.
    generator.feed([[answer.token_ids[-1], 11] for answer in completions])
    tokens, logprobs = generator.sample()
    for prompt, answer, token, logprob in zip(prompts, completions, tokens, logprobs, strict=True):
        expected = own_logprobs([*prompt, *answer.token_ids, 11])[token]
        assert_close(logprob, expected)


def test_every_token_may_stop_an_answer() -> None:
    generator = make_generator()
    generator.feed([[5], [6]])
    completions = generator.generate([8, 8], frozenset(range(VOCABULARY)))
    assert [(len(answer.token_ids), answer.ended) for answer in completions] == [(1, True), (1, True)]


def test_temperature_0_takes_the_most_likely_token() -> None:
    generator = make_generator(temperature=0.0)
    generator.feed([[5, 6], [7]])
    tokens, logprobs = generator.sample()
    for text, token, logprob in zip([[5, 6], [7]], tokens, logprobs, strict=True):
        assert token == int(own_logprobs(text).argmax())
        assert logprob == pytest.approx(float(own_logprobs(text).max()), rel=1e-4)


def test_sampling_follows_the_probabilities_and_the_seed() -> None:
    def draws(seed: int) -> list[int]:
        generator = make_generator(seed=seed)
        generator.feed([[5, 6]] * 4000)
        return generator.sample()[0]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    shares = torch.bincount(torch.tensor(draws(1)), minlength=VOCABULARY) / 4000
    torch.testing.assert_close(shares, own_logprobs([5, 6]).exp(), rtol=0, atol=0.04)


def test_a_row_goes_on_with_its_own_randomness_when_others_are_dropped() -> None:
    def draws(seeds: Sequence[int], kept: Sequence[int]) -> list[int]:
        generator = TransformersGenerator(MODEL, 0, Sampling(), [Random(seed) for seed in seeds])
        generator.feed([[5, 6]] * len(seeds))
        generator.keep(kept)
        return [generator.sample()[0][0] for _ in range(20)]

    assert draws([1, 2, 3], kept=[2]) == draws([3], kept=[0]) != draws([1], kept=[0])
