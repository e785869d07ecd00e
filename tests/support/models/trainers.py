"""Trainers of TRL for the tests of generation: tiny models, with transformers or with vLLM's surface."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.models.model_server import ModelServer
from tests.support.models.served_model import ServedModel
from tests.support.servers import RunningServer
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl.generation import vllm_client, vllm_generation
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.train.quiet import quiet_libraries

IGNORED = r"ignore:`(is_)?gradient_checkpointing\w*` is deprecated:FutureWarning"
"""TRL 1.16 uses names that transformers 5.23 has changed."""


def no_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def make_trainer(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, **settings: Any
) -> GRPOTrainer:
    """Make a trainer on the CPU."""
    defaults = {
        "per_device_train_batch_size": 4,
        "num_generations": 2,
        "max_completion_length": 12,
        "max_steps": 1,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "save_strategy": "no",
    }
    names = ("rollout_func", "environment_factory", "reward_funcs", "train_dataset")
    given = {key: settings.pop(key) for key in names if key in settings}
    with quiet_libraries():
        return GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=GRPOConfig(output_dir=str(folder), **{**defaults, **settings}),
            **{
                "train_dataset": Dataset.from_dict({"prompt": ["step of 1"] * 8}),
                "reward_funcs": [no_reward],
                **given,
            },
        )


@dataclass
class SamplingParams:
    """What TRL's colocated generation makes of the trainer's settings."""

    settings: dict[str, Any]


def sampling_params(**settings: Any) -> SamplingParams:
    return SamplingParams(settings)


class ColocatedModel:
    """vLLM's ``LLM``, as far as TRL uses it, with the tiny model behind it."""

    def __init__(self, served: ServedModel) -> None:
        self.asked: list[dict[str, Any]] = []
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=served.max_context))
        self._served = served

    def generate(self, prompts: list[dict[str, Any]], sampling_params: SamplingParams, use_tqdm: bool) -> list[Any]:
        settings = sampling_params.settings
        self.asked.append(settings)
        texts = [prompt["prompt_token_ids"] for prompt in prompts]
        stops = settings.get("stop_token_ids", [])
        written = self._served.written(texts, settings["max_tokens"], settings["temperature"], stops)
        return [
            SimpleNamespace(prompt_token_ids=text, outputs=[self._output(ids, logprobs)])
            for text, (ids, logprobs) in zip(texts, written, strict=True)
        ]

    def _output(self, ids: list[int], logprobs: list[float]) -> Any:
        ranked = [
            {token: SimpleNamespace(logprob=logprob, rank=2), 999_999: SimpleNamespace(logprob=logprob / 2, rank=1)}
            for token, logprob in zip(ids, logprobs, strict=True)
        ]
        return SimpleNamespace(token_ids=ids, logprobs=ranked)


@contextmanager
def vllm_installed(patch: pytest.MonkeyPatch, served: ServedModel) -> Iterator[None]:
    """Let TRL believe that vLLM is installed: its own code runs, with the tiny model where vLLM would be.

    Weights need no sending: the tiny model behind it is the trainer's own.
    """
    with patch.context() as patched:
        for module in (vllm_generation, vllm_client):
            patched.setattr(module, "is_vllm_available", lambda *_, **__: True)
        patched.setattr(vllm_generation, "LLM", lambda **_: ColocatedModel(served), raising=False)
        patched.setattr(vllm_generation, "SamplingParams", sampling_params, raising=False)
        patched.setattr(vllm_generation.VLLMGeneration, "sync_weights", lambda self: None)
        patched.setattr(vllm_client.VLLMClient, "init_communicator", lambda self, device: None)
        try:
            yield
        finally:
            # TRL sets these for vLLM beside it; whatever trains next in this process would take itself for one of many.
            for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
                os.environ.pop(name, None)


@contextmanager
def make_vllm_trainer(
    patch: pytest.MonkeyPatch,
    mode: str,
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    max_context: int = 1000,
    **settings: Any,
) -> Iterator[tuple[GRPOTrainer, ServedModel]]:
    """Make a trainer that generates with vLLM, beside it or on a server."""
    served = ServedModel(model, tokenizer, max_context)
    with vllm_installed(patch, served), RunningServer(ModelServer(served, served).app) as running:
        torch.manual_seed(1)
        trainer = make_trainer(
            folder,
            model,
            tokenizer,
            use_vllm=True,
            vllm_mode=mode,
            vllm_server_base_url=running.url,
            **settings,
        )
        yield trainer, served
