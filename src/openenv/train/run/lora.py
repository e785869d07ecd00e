"""Low-rank additions to a model, with the library ``peft``."""

from typing import TYPE_CHECKING, Any, cast

import torch
from peft import LoraConfig, PeftModel

from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.seeds import derived_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["lora_config", "whole_model"]


def lora_config(config: TrainConfig, purpose: str) -> LoraConfig | None:
    """Return the ``peft_config`` of TRL's trainers, ``None`` for a run that learns all weights."""
    if config.lora is None:
        return None
    # For the first weights of the additions: another seed for another purpose of the training.
    torch.manual_seed(derived_seed(config.seed, "lora", purpose))
    return LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        lora_dropout=config.lora.dropout,
        target_modules=config.lora.target_modules,
        task_type="CAUSAL_LM",
    )


def whole_model(trained: Any) -> "PreTrainedModel":
    """Return a trained model with its additions, if it has any, made part of its weights."""
    model = trained.merge_and_unload() if isinstance(trained, PeftModel) else trained
    return cast("PreTrainedModel", model)
