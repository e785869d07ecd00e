"""Generation with vLLM: TRL's own code, with the tiny model where vLLM would be: in this process, and on a server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.models.served_model import ServedModel
from tests.support.models.trainers import IGNORED, make_vllm_trainer
from tests.support.servers import RunningServer
from tests.train.generation.test_transformers_generator import MODEL, assert_close, own_logprobs
from transformers import PreTrainedTokenizerFast
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.generation.generator import Completion
from openenv.train.generation.trainers import trainer_generator
from openenv.train.generation.vllm_generator import VllmGenerator
from openenv.train.quiet import quiet_libraries
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.rollout_function import RolloutFunction

pytestmark = pytest.mark.filterwarnings(IGNORED)
TOKENIZER = build_tokenizer([], ["a b c d e f g"])


@pytest.fixture(params=["colocate", "server"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def set_up(mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[GRPOTrainer, ServedModel]]:
    with make_vllm_trainer(monkeypatch, mode, tmp_path, MODEL, TOKENIZER) as made:
        yield made


def assert_written(prompt: list[int], answer: Completion, limit: int, stop: int) -> None:
    """Check an answer's form, and its log-probabilities against the model."""
    assert 1 <= len(answer.token_ids) == len(answer.logprobs) <= limit
    assert answer.ended == (answer.token_ids[-1] == stop)
    assert stop not in answer.token_ids[:-1]
    assert answer.ended or len(answer.token_ids) == limit
    for position, (token, logprob) in enumerate(zip(answer.token_ids, answer.logprobs, strict=True)):
        assert_close(logprob, own_logprobs(prompt + answer.token_ids[:position])[token])


def test_answers_are_exact_over_turns_and_rows_that_fall_out(set_up: Any) -> None:
    trainer, _ = set_up
    generator = VllmGenerator(trainer.vllm_generation)
    texts, limits = [[5, 6, 7], [8], [9, 10]], [6, 1, 4]
    generator.feed(texts)
    for kept in ([2, 0], [1]):
        completions = generator.generate(limits, frozenset({3}))
        for text, answer, limit in zip(texts, completions, limits, strict=True):
            assert_written(text, answer, limit, 3)
        generator.keep(kept)
        generator.feed([[completions[row].token_ids[-1], 11] for row in kept])
        texts = [texts[row] + completions[row].token_ids + [11] for row in kept]
        limits = [limits[row] for row in kept]
    (answer,) = generator.generate([5], frozenset({3}))
    assert_written(texts[0], answer, 5, 3)


def test_the_trainer_s_settings_hold_and_stay(set_up: Any) -> None:
    trainer, _ = set_up
    vllm = trainer.vllm_generation
    vllm.generation_kwargs = {"n": 4, "max_tokens": 99, "top_p": 0.9, "stop_token_ids": [4]}
    generator = VllmGenerator(vllm)
    generator.feed([[5]])
    (answer,) = generator.generate([3], frozenset({3}))
    assert len(answer.token_ids) <= 3
    assert vllm.generation_kwargs == {"n": 4, "max_tokens": 99, "top_p": 0.9, "stop_token_ids": [4]}
    assert vllm.max_completion_length == 12


def test_a_model_that_writes_nothing_is_an_error(set_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, served = set_up
    monkeypatch.setattr(served, "written", lambda prompts, *_: [([], []) for _ in prompts])
    generator = VllmGenerator(trainer.vllm_generation)
    generator.feed([[5, 6]])
    with pytest.raises(OpenEnvError, match=r"wrote nothing after a text of 2 tokens"):
        generator.generate([3], frozenset())


def test_log_probabilities_are_needed(set_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, _ = set_up
    vllm = trainer.vllm_generation
    monkeypatch.setattr(vllm, "generate", lambda **_: ([[5]], [[6]], None, None))
    generator = VllmGenerator(vllm)
    generator.feed([[5]])
    with pytest.raises(OpenEnvError, match="gave no log-probabilities"):
        generator.generate([1], frozenset())


def stairs_setting() -> tuple[Any, PreTrainedTokenizerFast]:
    tokenizer = build_tokenizer([], ["step and of up wait fall asleep expected one got"])
    return build_model(tokenizer, layers=2), tokenizer


@pytest.mark.parametrize("max_context", [1000, 24])
def test_rollouts_are_exact_and_stay_within_the_context(
    mode: str, stairs_server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, max_context: int
) -> None:
    model, tokenizer = stairs_setting()
    made = make_vllm_trainer(monkeypatch, mode, tmp_path, model, tokenizer, max_context, max_completion_length=60)
    with (
        EnvSpec(stairs_server.url, tasks=[{"seed": seed} for seed in range(6)], max_turns=8) as spec,
        made as (trainer, _),
    ):
        rollout = RolloutFunction(spec, max_action_tokens=3, fallback="wait")
        fields = rollout(list(spec.train_dataset["prompt"]), trainer)
    lengths = [len(ids) + len(more) for ids, more in zip(fields["prompt_ids"], fields["completion_ids"], strict=True)]
    assert max(lengths) <= max_context
    assert max(fields["episode_length"]) > 1
    for prompt, completion, logprobs, mask in zip(
        fields["prompt_ids"], fields["completion_ids"], fields["logprobs"], fields["env_mask"], strict=True
    ):
        tokens = torch.tensor([prompt + completion])
        with torch.no_grad():
            logits = model.eval()(input_ids=tokens).logits[0, len(prompt) - 1 : -1]
        own = logits.log_softmax(-1).gather(1, tokens[0, len(prompt) :, None]).squeeze(1)
        torch.testing.assert_close(torch.tensor(logprobs), own * torch.tensor(mask), rtol=1e-3, atol=1e-4)


def test_training_sees_what_was_sampled(
    mode: str, stairs_server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, tokenizer = stairs_setting()
    with EnvSpec(stairs_server.url, tasks=[{"seed": seed} for seed in range(8)], max_turns=4) as spec:
        settings = {
            "train_dataset": spec.train_dataset,
            "reward_funcs": spec.reward_funcs,
            "rollout_func": RolloutFunction(spec, max_action_tokens=2, fallback="wait"),
            "max_completion_length": 60,
            "logging_steps": 1,
        }
        with (
            make_vllm_trainer(monkeypatch, mode, tmp_path, model, tokenizer, **settings) as (trainer, _),
            quiet_libraries(),
        ):
            trainer.train()
    (row,) = [row for row in trainer.state.log_history if "episode/reward" in row]
    # TRL compares our log-probabilities with those of its own forward pass.
    assert row["sampling/sampling_logp_difference/max"] < 1e-3


def test_several_processes_in_step_are_refused(set_up: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, _ = set_up
    trainer_generator(trainer)
    monkeypatch.setattr(type(trainer.accelerator), "num_processes", 2)
    if mode == "colocate":
        trainer_generator(trainer)
        trainer.vllm_generation.tensor_parallel_size = 2
    with pytest.raises(ConfigurationError, match="cannot share vLLM between 2 training processes"):
        trainer_generator(trainer)
