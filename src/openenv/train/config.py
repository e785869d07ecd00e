"""The settings of a training run: typed, from a YAML file and the command line, saved beside the run."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from openenv.core.exceptions import ConfigurationError

__all__ = ["TINY", "TrainConfig", "load_config"]

TINY = "tiny"

# A pretrained model wants small steps, and few episodes at once fit into memory. The fields' own defaults are those
# of the tiny policy.
_CHAT_DEFAULTS: dict[str, Any] = {
    "steps": 200,
    "rollouts": 32,
    "micro_batch": 4,
    "learning_rate": 2e-6,
    "adam_beta2": 0.999,
    "entropy_coef": 0.0,
    "max_turns": 16,
    "max_action_tokens": 256,
    "max_context": 4096,
    "checkpoint_every": 25,
    "eval_episodes": 64,
    "threads": 0,
    "gradient_checkpointing": True,
}


class TrainConfig(BaseModel):
    """What a training run is made of; every value has a default but the environment.

    The defaults are those of the tiny policy. A pretrained model has other defaults for the length of the run, the
    batch, the learning rate and the limits; see ``_CHAT_DEFAULTS`` in this module or the run's ``config.yaml``.

    Example:
        >>> TrainConfig(environment="catch").rollouts
        128
        >>> TrainConfig(environment="catch", model="Qwen/Qwen3-0.6B").rollouts
        32
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str = Field(description="name of an environment, its folder, or a server's URL")
    model: str = Field(default=TINY, description="'tiny', a model's id on the Hub, or its folder")
    seed: int = Field(default=1, ge=0, description="what every random choice derives from")

    steps: int = Field(default=300, ge=1, description="optimiser steps")
    rollouts: int = Field(default=128, ge=2, description="episodes for each optimiser step")
    group_size: int = Field(default=8, ge=2, description="episodes with the same seed, compared with each other")
    micro_batch: int | None = Field(default=None, ge=1, description="episodes in one backward pass; default: all")
    learning_rate: float = Field(default=3e-3, gt=0, description="rate of AdamW at the start")
    lr_schedule: Literal["linear", "cosine", "constant"] = Field(default="linear", description="how the rate changes")
    adam_beta2: float = Field(default=0.95, gt=0, lt=1, description="memory of AdamW for the size of gradients")
    max_grad_norm: float = Field(default=1.0, gt=0, description="gradients are scaled down to this norm")
    scale_rewards: Literal["batch", "group", "none"] = Field(
        default="batch", description="what advantages are divided by"
    )
    loss_type: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = Field(default="dapo", description="TRL's loss_type")
    entropy_coef: float = Field(default=0.02, ge=0, description="reward for a policy that keeps trying other actions")
    beta: float = Field(default=0.0, ge=0, description="weight of the KL divergence from the model at the start")

    temperature: float = Field(default=1.0, gt=0, description="of sampling in training")
    eval_temperature: float = Field(
        default=0.0, ge=0, description="of sampling in evaluation; 0 takes the most likely token"
    )
    max_turns: int = Field(default=32, ge=1, description="actions after which an episode is cut off")
    max_action_tokens: int = Field(default=8, ge=1, description="tokens a model may write for one action")
    max_context: int = Field(default=2048, ge=16, description="tokens of an episode after which it is cut off")
    illegal_penalty: float = Field(default=0.1, ge=0, description="taken from the reward for each illegal action")
    fallback: str | None = Field(default=None, description="the action that an illegal text counts as")
    thinking: bool = Field(default=False, description="let the chat template ask for reasoning before an action")

    tiny_hidden: int = Field(default=32, ge=16, multiple_of=16, description="width of the tiny policy")
    tiny_layers: int = Field(default=1, ge=1, description="layers of the tiny policy")
    device: Literal["auto", "cpu"] = Field(default="auto", description="'auto' takes a GPU for a pretrained model")
    threads: int = Field(default=1, ge=0, description="threads of torch on the CPU; 0 leaves torch's own choice")
    gradient_checkpointing: bool = Field(default=False, description="save memory by computing activations twice")

    eval_episodes: int = Field(default=200, ge=1, description="fresh seeds for the comparison before and after")
    checkpoint_every: int = Field(default=100, ge=1, description="optimiser steps between two checkpoints")
    report_to: list[str] = Field(default_factory=list, description="trackers, as TRL's report_to names them")
    output_dir: Path = Field(default=Path("runs"), description="where the run's folder is made")
    name: str | None = Field(default=None, description="name of the run's folder; default: from the time")

    @property
    def is_tiny(self) -> bool:
        """Whether the built-in tiny policy is trained."""
        return self.model == TINY

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults_of_a_pretrained_model(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("model", TINY) != TINY:
            return {**_CHAT_DEFAULTS, **given}
        return given

    @model_validator(mode="after")
    def _batch_divides(self) -> "TrainConfig":
        if self.rollouts % self.group_size:
            raise ValueError(
                f"rollouts ({self.rollouts}) must be a multiple of group_size ({self.group_size}); "
                f"the nearest is {max(1, round(self.rollouts / self.group_size)) * self.group_size}"
            )
        if self.micro_batch and self.rollouts % self.micro_batch:
            raise ValueError(f"rollouts ({self.rollouts}) must be a multiple of micro_batch ({self.micro_batch})")
        return self

    def save(self, path: Path) -> None:
        """Write the settings as YAML, in the form that `load_config` reads."""
        # In ASCII, with the rest escaped: Unicode has line breaks that YAML would not give back.
        path.write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False), encoding="ascii")


def load_config(file: Path | None = None, **given: Any) -> TrainConfig:
    """Make the settings of a run.

    Args:
        file: A YAML file with any of the fields of `TrainConfig`.
        **given: Fields that win over the file's; ``None`` counts as not given.

    Returns:
        The settings.

    Raises:
        ConfigurationError: A field is unknown, missing or out of range, or the file is no YAML mapping.

    Example:
        >>> load_config(environment="catch", steps=10, seed=None).steps
        10
    """
    fields = {} if file is None else _read_yaml(file)
    fields.update({name: value for name, value in given.items() if value is not None})
    try:
        return TrainConfig(**fields)
    except ValidationError as error:
        where = "" if file is None else f" (settings from {file} and the command line)"
        faults = "; ".join(_fault_text(dict(fault)) for fault in error.errors())
        raise ConfigurationError(f"{faults}{where}.") from error


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        fields = yaml.safe_load(file.read_text())
    except FileNotFoundError as error:
        raise ConfigurationError(f"There is no file {file}.") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file} is no YAML: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigurationError(f"{file} must hold a mapping from settings to values, not {type(fields).__name__}.")
    return fields


def _fault_text(fault: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        return f"{name} is missing"
    if fault["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, TrainConfig.model_fields, n=1)
        return f"there is no setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}; got {fault['input']!r}" if name else message
