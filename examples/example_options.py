"""What the examples of training by tool calls share: their options, and settings for a GPU and for trying them out."""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec

TINY = "tiny"


@dataclass(frozen=True)
class ExampleOptions:
    """An example's options.

    Attributes:
        model: What is trained: a model's name or folder, or ``tiny``.
        targets: Names of the environments, or the addresses of their servers.
        steps: Optimiser steps.
        output: Where checkpoints and the trained model go; ``None`` for nowhere.
        lora: Whether adapters are trained instead of all weights.
    """

    model: str
    targets: Sequence[str]
    steps: int
    output: Path | None
    lora: bool

    @property
    def target(self) -> str:
        """The environment, where there is one."""
        return self.targets[0]

    @property
    def is_tiny(self) -> bool:
        """Whether the example is only tried out."""
        return self.model == TINY

    def model_settings(self, *specs: EnvSpec) -> dict[str, Any]:
        """Say what the trainer trains.

        Args:
            *specs: The environments, for a tiny model to see what calls of their tools look like.

        Returns:
            Arguments of ``GRPOTrainer``.
        """
        adapters = {"peft_config": _adapters()} if self.lora else {}
        if not self.is_tiny:
            return {"model": self.model, **adapters}
        from tiny_model import tiny_model_for

        model, tokenizer = tiny_model_for(specs)
        return {"model": model, "processing_class": tokenizer, **adapters}

    def grpo_config(self, **settings: Any) -> GRPOConfig:
        """Make the trainer's settings.

        Args:
            **settings: Those of the example; they are for one GPU of 80 GB. For a tiny model some become smaller.
        """
        common = {
            "output_dir": str(self.output or tempfile.mkdtemp(prefix="openenv-example-")),
            "max_steps": self.steps,
            "logging_steps": 1,
            "save_strategy": "no" if self.output is None else "steps",
            "report_to": "none",
        }
        on_gpu = {
            "learning_rate": 1e-5 if self.lora else 1e-6,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 8,
            "num_generations": 8,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        on_cpu = {
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
            "num_generations": 4,
            "use_cpu": True,
            "bf16": False,
            "activation_checkpointing": False,
            "disable_tqdm": True,
        }
        chosen = {**settings, **on_cpu} if self.is_tiny else {**on_gpu, **settings}
        return GRPOConfig(**common, **chosen)

    def train(self, trainer: GRPOTrainer) -> None:
        """Train, keep the model where it is asked for, and print what became of the rewards."""
        trainer.train()
        if self.output is not None:
            trainer.save_model()
        log = [entry for entry in trainer.state.log_history if "reward" in entry]
        calls = sum(entry["tools/call_frequency"] for entry in log) / len(log)
        print(  # noqa: T201
            f"mean reward {log[0]['reward']:+.3f} in the first step, {log[-1]['reward']:+.3f} in the last; "
            f"{calls:.1f} tool calls in an episode"
        )


def _adapters() -> Any:
    from peft import LoraConfig  # only --lora needs it

    return LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")


def read_options(description: str, *environments: str, model: str = "Qwen/Qwen3-1.7B") -> ExampleOptions:
    """Read the command line.

    Args:
        description: The example's docstring.
        *environments: Names of the environments that it trains on.
        model: What it trains by default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default=model, help="name or folder; 'tiny' to try it on a CPU (default: %(default)s)"
    )
    parser.add_argument(
        "--url",
        nargs=len(environments),
        default=list(environments),
        dest="targets",
        metavar=tuple(f"{name.upper()}_URL" for name in environments),
        help="servers that run, in place of those that are started",
    )
    parser.add_argument("--steps", type=int, default=200, help="optimiser steps (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="folder for checkpoints and the model")
    parser.add_argument("--lora", action="store_true", help="train adapters instead of all weights")
    return ExampleOptions(**vars(parser.parse_args()))
