"""Generator of a trainer, chosen by its settings: its own model, or vLLM beside it or on a server."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from openenv.core.exceptions import ConfigurationError
from openenv.train.generation.generator import Generator
from openenv.train.generation.sampling import Sampling
from openenv.train.generation.transformers_generator import TransformersGenerator
from openenv.train.generation.vllm_generator import VllmGenerator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
    from trl.trainer.grpo_trainer import GRPOTrainer

__all__ = ["max_context_of", "pad_id_of", "tokenizer_of", "trainer_generator"]


def trainer_generator(
    trainer: "GRPOTrainer", changes: Mapping[str, Any] | None = None, seed: int | None = None
) -> AbstractContextManager[Generator]:
    """Make a generator of a trainer's model as it is now, in this process or in vLLM, for a ``with`` block.

    Args:
        trainer: The trainer, whose ``use_vllm`` and ``vllm_mode`` decide; TRL has put the current weights into vLLM.
        changes: Settings of `Sampling`, or of vLLM's ``SamplingParams``, instead of the trainer's
            ``generation_kwargs``; ``None`` for these.
        seed: Seed of the draws; ``None`` for torch's own randomness. vLLM draws by its own.

    Raises:
        ConfigurationError: Rollouts cannot be generated in this setting, or a setting of sampling is unknown.
    """
    _check_processes(trainer)
    if trainer.use_vllm:
        return nullcontext(VllmGenerator(trainer.vllm_generation, changes))
    return _transformers_generator(trainer, Sampling.of(trainer, changes), seed)


def max_context_of(trainer: "GRPOTrainer") -> int:
    """Return the limit of a text's tokens in a trainer's model or in its vLLM.

    Raises:
        ConfigurationError: Rollouts cannot be generated in this setting.
    """
    _check_processes(trainer)
    if not trainer.use_vllm:
        config = trainer.accelerator.unwrap_model(trainer.model).config.get_text_config()
        return int(config.max_position_embeddings)
    vllm = trainer.vllm_generation
    if vllm.mode == "server":
        return int(vllm.vllm_client.get_server_info()["model_config"]["max_model_len"])
    return int(vllm.llm.llm_engine.model_config.max_model_len)


@contextmanager
def _transformers_generator(trainer: "GRPOTrainer", sampling: Sampling, seed: int | None) -> Iterator[Generator]:
    from trl.models.utils import unwrap_model_for_generation

    args: Any = trainer.args
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=args.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=args.gradient_checkpointing_kwargs,
    ) as model:
        was_training = model.training
        model.eval()
        randomness = None if seed is None else torch.Generator(model.device).manual_seed(seed)
        try:
            with trainer.accelerator.autocast():
                yield TransformersGenerator(model, pad_id_of(tokenizer_of(trainer)), sampling, randomness)
        finally:
            model.train(was_training)


def _check_processes(trainer: "GRPOTrainer") -> None:
    """Refuse settings in which processes have to compute in step: episodes of different lengths cannot."""
    if trainer.use_vllm:
        _check_vllm_is_own(trainer)
    else:
        _check_weights_are_whole(trainer)


def _check_vllm_is_own(trainer: "GRPOTrainer") -> None:
    """Refuse a vLLM that several processes send their requests to together."""
    vllm = trainer.vllm_generation
    in_step = vllm.mode == "server" or vllm.tensor_parallel_size > 1
    if in_step and trainer.accelerator.num_processes > 1:
        raise ConfigurationError(
            f"Rollouts of several turns cannot share vLLM between {trainer.accelerator.num_processes} training "
            "processes. Set vllm_mode='colocate' with vllm_tensor_parallel_size=1, or train in one process."
        )


def _check_weights_are_whole(trainer: "GRPOTrainer") -> None:
    """Refuse weights that each forward pass gathers from all processes, of which each has its own number of passes."""
    remedy = None
    deepspeed = trainer.accelerator.state.deepspeed_plugin
    args: Any = trainer.args
    if trainer.is_fsdp_enabled:
        remedy = "FSDP: train with DeepSpeed instead"
    elif deepspeed is not None and deepspeed.zero_stage == 3 and not args.ds3_gather_for_generation:
        remedy = "DeepSpeed: set ds3_gather_for_generation=True"
    if remedy is not None:
        raise ConfigurationError(
            f"Rollouts of several turns cannot be generated with weights that are divided by {remedy}, or generate "
            "with use_vllm=True and vllm_mode='colocate'."
        )


def tokenizer_of(trainer: "GRPOTrainer") -> "PreTrainedTokenizerBase":
    """Return a trainer's tokenizer, also where it is part of a processor of pictures."""
    from transformers import ProcessorMixin

    processing: Any = trainer.processing_class
    tokenizer: PreTrainedTokenizerBase = processing.tokenizer if isinstance(processing, ProcessorMixin) else processing
    return tokenizer


def pad_id_of(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Return a token to pad with: the end token where the tokenizer has none of its own."""
    return int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
