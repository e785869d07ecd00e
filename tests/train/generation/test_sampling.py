"""The distribution that tokens are drawn from is the one that transformers' own generation draws from."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.train.generation.test_transformers_generator import MODEL, VOCABULARY
from transformers import GenerationConfig

from openenv.core.exceptions import ConfigurationError
from openenv.train.generation.sampling import Sampling
from openenv.train.generation.transformers_generator import TransformersGenerator

make_config: Any = GenerationConfig


def own_scores(ids: torch.Tensor, logits: torch.Tensor, **changes: Any) -> torch.Tensor:
    """What transformers' ``generate`` makes of logits."""
    model: Any = MODEL
    processors = model._get_logits_processor(make_config(do_sample=True, **changes), ids.shape[1])
    scores: torch.Tensor = processors(ids, logits)
    return scores.log_softmax(-1)


@settings(max_examples=30, deadline=None)
@given(
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5, 100]),
    top_p=st.sampled_from([1.0, 0.9, 0.3]),
    min_p=st.sampled_from([0.0, 0.2]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    text=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6),
)
def test_every_setting_means_what_it_means_in_transformers(text: list[int], **changes: Any) -> None:
    generator = TransformersGenerator(MODEL, 0, Sampling().with_changes(changes), torch.Generator().manual_seed(1))
    # Two rows of different lengths: padding is no token that was seen.
    generator.feed([text, [*text, 5, 6]])
    for row in (text, [*text, 5, 6]):
        ids = torch.tensor([row])
        with torch.no_grad():
            logits = MODEL(input_ids=ids).logits[:, -1]
        expected = own_scores(ids, logits, **changes)
        own = generator._sampling.logprobs(generator._logits, generator._seen)[[text, [*text, 5, 6]].index(row)]
        torch.testing.assert_close(own, expected[0], rtol=1e-4, atol=1e-4)
    tokens, logprobs = generator.sample()
    assert all(logprob > -torch.inf for logprob in logprobs)
    generator.keep([1])
    generator.feed([[tokens[1]]])
    with torch.no_grad():
        ids = torch.tensor([[*text, 5, 6, tokens[1]]])
        expected = own_scores(ids, MODEL(input_ids=ids).logits[:, -1], **changes)
    own = generator._sampling.logprobs(generator._logits, generator._seen)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)


def test_a_trainer_s_settings_are_taken() -> None:
    args = SimpleNamespace(generation_kwargs={"top_p": 0.5})
    own = {"temperature": 0.7, "top_k": 3, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.1}
    trainer: Any = SimpleNamespace(args=args, **own)
    assert Sampling.of(trainer) == Sampling(0.7, 3, 0.5, 0.0, 1.1)
    assert Sampling.of(trainer, {"temperature": 0.0}) == Sampling(0.0, 3, 1.0, 0.0, 1.1)


def test_settings_of_vllm_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"got best_of, top_q\. Others are for vLLM"):
        Sampling().with_changes({"top_q": 1, "best_of": 2, "top_p": 0.5})
