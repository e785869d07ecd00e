"""What a trainer generates with, chosen by its settings: its own model, or vLLM beside it or on a server."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch

from openenv.core.exceptions import ConfigurationError
from openenv.train.generation.answers import Writer
from openenv.train.generation.decoder import Decoder
from openenv.train.generation.sampling import Sampling
from openenv.train.generation.vllm_writer import VllmWriter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
    from trl.trainer.grpo_trainer import GRPOTrainer

__all__ = ["Backend", "TransformersBackend", "VllmBackend", "backend_of", "tokenizer_of"]


class Backend(Protocol):
    """Makes writers with a trainer's model.

    Attributes:
        max_context: The most tokens that a text may have.
    """

    max_context: int

    def writing(
        self, changes: Mapping[str, Any] | None = None, seed: int | None = None
    ) -> AbstractContextManager[Writer]:
        """Make a writer, to be used within a ``with`` block.

        Args:
            changes: Settings of sampling in place of the trainer's ``generation_kwargs``; ``None`` for these.
            seed: Of the draws, where the backend takes one for all of them; ``None`` for its own randomness.
        """
        ...


class TransformersBackend:
    """The trainer's model in this process, with its key-value cache kept over turns.

    Args:
        trainer: The trainer.

    Attributes:
        max_context: The most tokens that a text may have.

    Raises:
        ConfigurationError: The model's weights are divided among processes, which then have to compute in step with one
            another, and episodes of different lengths cannot.
    """

    def __init__(self, trainer: "GRPOTrainer") -> None:
        _check_weights_are_whole(trainer)
        self._trainer = trainer
        config = trainer.accelerator.unwrap_model(trainer.model).config.get_text_config()
        self.max_context = int(config.max_position_embeddings)

    @contextmanager
    def writing(self, changes: Mapping[str, Any] | None = None, seed: int | None = None) -> Iterator[Writer]:
        """Make a writer, to be used within a ``with`` block, in which the model is in the mode of evaluation.

        Args:
            changes: Settings of `Sampling` in place of the trainer's ``generation_kwargs``; ``None`` for these.
            seed: Of the draws; ``None`` for torch's own randomness.

        Raises:
            ConfigurationError: A setting is of another backend.
        """
        from trl.models.utils import unwrap_model_for_generation

        trainer = self._trainer
        args: Any = trainer.args
        sampling = Sampling.of(trainer, changes)
        with unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=args.ds3_gather_for_generation,
            gradient_checkpointing_kwargs=args.gradient_checkpointing_kwargs,
        ) as model:
            was_training = model.training
            model.eval()
            generator = None if seed is None else torch.Generator(model.device).manual_seed(seed)
            try:
                with trainer.accelerator.autocast():
                    yield Decoder(model, pad_id_of(tokenizer_of(trainer)), sampling, generator)
            finally:
                model.train(was_training)


class VllmBackend:
    """The trainer's vLLM, in its process (``colocate``) or on a server; TRL has put the current weights there.

    Args:
        trainer: The trainer, set up with ``use_vllm``.

    Attributes:
        max_context: The most tokens that a text may have.

    Raises:
        ConfigurationError: Several processes would have to ask vLLM in step with one another, which episodes of
            different lengths cannot.
    """

    def __init__(self, trainer: "GRPOTrainer") -> None:
        self._vllm = trainer.vllm_generation
        in_step = self._vllm.mode == "server" or self._vllm.tensor_parallel_size > 1
        if in_step and trainer.accelerator.num_processes > 1:
            raise ConfigurationError(
                f"Rollouts of several turns cannot share vLLM between {trainer.accelerator.num_processes} training "
                "processes. Set vllm_mode='colocate' with vllm_tensor_parallel_size=1, or train in one process."
            )
        self.max_context = self._context()

    @contextmanager
    def writing(self, changes: Mapping[str, Any] | None = None, seed: int | None = None) -> Iterator[Writer]:
        """Make a writer, to be used within a ``with`` block.

        Args:
            changes: Settings of vLLM's ``SamplingParams`` in place of the trainer's ``generation_kwargs``; ``None`` for
                these.
            seed: Not used: vLLM draws by its own.
        """
        yield VllmWriter(self._vllm, changes)

    def _context(self) -> int:
        if self._vllm.mode == "server":
            return int(self._vllm.vllm_client.get_server_info()["model_config"]["max_model_len"])
        return int(self._vllm.llm.llm_engine.model_config.max_model_len)


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


def backend_of(trainer: "GRPOTrainer") -> Backend:
    """Choose what a trainer generates with.

    Args:
        trainer: Its ``use_vllm`` and ``vllm_mode`` decide.

    Raises:
        ConfigurationError: Rollouts cannot be generated in this setting.
    """
    return VllmBackend(trainer) if trainer.use_vllm else TransformersBackend(trainer)


def tokenizer_of(trainer: "GRPOTrainer") -> "PreTrainedTokenizerBase":
    """Return a trainer's tokenizer, also where it is part of a processor of pictures."""
    from transformers import ProcessorMixin

    processing: Any = trainer.processing_class
    tokenizer: PreTrainedTokenizerBase = processing.tokenizer if isinstance(processing, ProcessorMixin) else processing
    return tokenizer


def pad_id_of(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Return a token to pad with: the end token where the tokenizer has none of its own."""
    return int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
