"""One answer for each prompt, as scripts written for TRL's helper ask for it, on every backend."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.models.chat_models import CHATML, chat_model, chat_tokenizer
from tests.support.models.trainers import IGNORED, make_trainer, make_vllm_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError
from openenv.train.generation import generate_rollout_completions

pytestmark = pytest.mark.filterwarnings(IGNORED)

TOKENIZER = chat_tokenizer(CHATML)
MODEL: Any = chat_model(TOKENIZER)
PROMPTS = ["left or right?", "ball 3 paddle 2 row 0", "left or right?"]


@pytest.fixture(params=["transformers", "colocate", "server"])
def trainer_with(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., GRPOTrainer]]:
    """Makes trainers that generate with one of the backends."""
    with ExitStack() as opened:

        def make(**settings: Any) -> GRPOTrainer:
            if request.param == "transformers":
                return make_trainer(tmp_path, MODEL, TOKENIZER, **settings)
            made = make_vllm_trainer(monkeypatch, request.param, tmp_path, MODEL, TOKENIZER, **settings)
            return opened.enter_context(made)[0]

        yield make


def own_logprobs(output: dict[str, Any], temperature: float = 1.0) -> torch.Tensor:
    tokens = torch.tensor([output["prompt_ids"] + output["completion_ids"]])
    start = len(output["prompt_ids"])
    with torch.no_grad():
        logits = MODEL.eval()(input_ids=tokens).logits[0, start - 1 : -1] / temperature
    own: torch.Tensor = logits.log_softmax(-1).gather(1, tokens[0, start:, None]).squeeze(1)
    return own


def test_every_prompt_has_its_answer_with_exact_logprobs(trainer_with: Any) -> None:
    trainer = trainer_with(temperature=0.7)
    outputs = generate_rollout_completions(trainer, PROMPTS)
    assert [output["prompt_ids"] for output in outputs] == [TOKENIZER.encode(prompt) for prompt in PROMPTS]
    stops = set(trainer.eos_token_ids)
    for output in outputs:
        ids = output["completion_ids"]
        assert 1 <= len(ids) == len(output["logprobs"]) <= 12
        assert not stops & set(ids[:-1])
        assert len(ids) == 12 or ids[-1] in stops
        assert output["text"] == TOKENIZER.decode(ids, skip_special_tokens=True)
        own = own_logprobs(output, 0.7)
        torch.testing.assert_close(torch.tensor(output["logprobs"]), own, rtol=1e-3, atol=1e-4)
    assert generate_rollout_completions(trainer, []) == []


def test_overrides_win_over_the_trainer_s_settings(trainer_with: Any) -> None:
    trainer = trainer_with(generation_kwargs={"temperature": 5.0})
    first, _, again = generate_rollout_completions(
        trainer, PROMPTS, generation_overrides={"temperature": 0.0, "max_tokens": 3}
    )
    assert first["completion_ids"] == again["completion_ids"]
    assert len(first["completion_ids"]) <= 3
    hot = generate_rollout_completions(trainer, PROMPTS[:1])[0]
    torch.testing.assert_close(torch.tensor(hot["logprobs"]), own_logprobs(hot, 5.0), rtol=1e-3, atol=1e-4)


def test_conversations_are_rendered_by_the_chat_template(trainer_with: Any) -> None:
    trainer = trainer_with()
    as_chat, messages, plain = (
        generate_rollout_completions(trainer, ["left?"], as_chat=True)[0],
        generate_rollout_completions(trainer, [[{"role": "user", "content": "left?"}]])[0],
        generate_rollout_completions(trainer, ["left?"], as_chat=False)[0],
    )
    rendered = "<|im_start|>user\nleft?<|im_end|>\n<|im_start|>assistant\n"
    assert TOKENIZER.decode(as_chat["prompt_ids"]) == TOKENIZER.decode(messages["prompt_ids"]) == rendered
    assert TOKENIZER.decode(plain["prompt_ids"]) == "left?"


def test_more_than_one_answer_and_too_long_prompts_are_refused(trainer_with: Any) -> None:
    trainer = trainer_with()
    with pytest.raises(ConfigurationError, match="One completion is generated for each prompt"):
        generate_rollout_completions(trainer, PROMPTS, generation_overrides={"n": 2})
    with pytest.raises(ConfigurationError, match="shorten the prompts"):
        generate_rollout_completions(trainer, ["left " * 5000])


def test_an_answer_ends_where_the_context_does(trainer_with: Any) -> None:
    trainer = trainer_with(max_completion_length=4000)
    longest = 4096 if not trainer.use_vllm else 1000
    (output,) = generate_rollout_completions(
        trainer, [" left" * (longest - 6)], generation_overrides={"temperature": 0.0}
    )
    assert len(output["prompt_ids"]) + len(output["completion_ids"]) <= longest


def test_draws_are_torch_s_own(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, MODEL, TOKENIZER)
    torch.manual_seed(5)
    first = generate_rollout_completions(trainer, PROMPTS)
    assert generate_rollout_completions(trainer, PROMPTS) != first
    torch.manual_seed(5)
    assert generate_rollout_completions(trainer, PROMPTS) == first


def test_settings_of_vllm_are_refused_without_it(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, MODEL, TOKENIZER)
    with pytest.raises(ConfigurationError, match="Others are for vLLM"):
        generate_rollout_completions(trainer, PROMPTS, generation_overrides={"stop_token_ids": [5]})
