"""What a trainer generates with: its own model here; vLLM is in test_vllm_generator.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.support.models.trainers import IGNORED, make_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.tiny import MAX_POSITIONS, build_model, build_tokenizer
from openenv.train.generation.generator import Completion
from openenv.train.generation.trainers import max_context_of, tokenizer_of, trainer_generator

pytestmark = pytest.mark.filterwarnings(IGNORED)
TOKENIZER = build_tokenizer([], ["a b c d e f g"])


def with_adapters() -> Any:
    """A model with LoRA adapters that change what it says."""
    settings = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    base: Any = build_model(TOKENIZER, layers=2)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return get_peft_model(base, settings)


@pytest.fixture(params=["whole", "adapters", "checkpointing"])
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> GRPOTrainer:
    model = with_adapters() if request.param == "adapters" else build_model(TOKENIZER, layers=2)
    return make_trainer(tmp_path, model, TOKENIZER, activation_checkpointing=request.param == "checkpointing")


def answer(trainer: GRPOTrainer, seed: int | None = 1) -> Completion:
    with trainer_generator(trainer, seed=seed) as generator:
        generator.feed([[5, 6, 7]])
        return generator.generate([20], frozenset())[0]


def fail_within(trainer: GRPOTrainer) -> None:
    model: Any = trainer.model
    with trainer_generator(trainer):
        assert not model.training
        raise ZeroDivisionError


def test_what_is_written_is_the_trained_model_s(trainer: GRPOTrainer) -> None:
    written = answer(trainer)
    model: Any = trainer.model
    tokens = torch.tensor([[5, 6, 7, *written.token_ids]])
    with torch.no_grad():
        logits = model.eval()(input_ids=tokens).logits[0, 2:-1]
    own = logits.log_softmax(-1).gather(1, tokens[0, 3:, None]).squeeze(1)
    torch.testing.assert_close(torch.tensor(written.logprobs), own, rtol=1e-3, atol=1e-4)


def test_the_seed_decides_what_is_drawn(trainer: GRPOTrainer) -> None:
    assert answer(trainer, 1).token_ids == answer(trainer, 1).token_ids != answer(trainer, 2).token_ids
    torch.manual_seed(1)
    assert answer(trainer, None).token_ids != answer(trainer, None).token_ids


def test_the_model_is_left_as_it_was(trainer: GRPOTrainer) -> None:
    model: Any = trainer.model
    for training in (True, False):
        model.train(training)
        with pytest.raises(ZeroDivisionError):
            fail_within(trainer)
        assert model.training is training


def test_the_context_is_the_model_s(trainer: GRPOTrainer) -> None:
    assert max_context_of(trainer) == MAX_POSITIONS
    assert tokenizer_of(trainer) is trainer.processing_class


def test_weights_that_processes_gather_in_each_forward_pass_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose episodes are longer would wait forever for one that is done."""
    trainer = make_trainer(tmp_path, build_model(TOKENIZER), TOKENIZER)
    monkeypatch.setattr(trainer, "is_fsdp_enabled", True)
    with pytest.raises(ConfigurationError, match="divided by FSDP"):
        trainer_generator(trainer)

    monkeypatch.setattr(trainer, "is_fsdp_enabled", False)
    monkeypatch.setattr(type(trainer.accelerator.state), "deepspeed_plugin", SimpleNamespace(zero_stage=3))
    trainer_generator(trainer)  # TRL gathers the whole of them once
    monkeypatch.setattr(trainer.args, "ds3_gather_for_generation", False)
    with pytest.raises(ConfigurationError, match="ds3_gather_for_generation=True"):
        trainer_generator(trainer)
