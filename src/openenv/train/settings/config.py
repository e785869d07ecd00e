"""The settings of a training run: typed, from a YAML file and the command line, saved beside the run."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from openenv.core.addresses import passwords_in
from openenv.core.documents import read_yaml
from openenv.core.env_server.settings import check_field_path
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import nearest_name
from openenv.core.variables import Option
from openenv.records.answers import AnswerRule, IllegalAnswers
from openenv.records.prices import Prices, read_prices
from openenv.records.run_folder import RunFolder
from openenv.train.settings.environment_settings import CurriculumStage, EnvironmentSettings, number_in
from openenv.train.settings.lora_settings import LoraSettings
from openenv.train.settings.sampler_settings import SamplerSettings
from openenv.train.settings.vllm_settings import VllmSettings

__all__ = ["TINY", "CurriculumStage", "EnvironmentSettings", "LoraSettings", "TrainConfig", "load_config"]

TINY = "tiny"
STEP_TIMEOUT_S = 60.0
"""Seconds that an environment's reset or step may take by default."""

FieldPath: TypeAlias = Annotated[str, AfterValidator(check_field_path)]
"""Path of a field that traces leave out."""

ILLEGAL_ANSWERS = (
    "effect of an illegal answer: it counts as the fallback action, ends its episode, or costs the penalty and is not "
    "played"
)
ILLEGAL_PENALTY = "reward that each illegal answer costs where that is its effect"
LENIENT = "read a text with exactly one legal value in it, as in 'The answer is left.', as that value"

_ENTROPY_COEF = 0.02
# Headings of the options of `openenv train`.
_TASKS, _LEARNING, _EPISODES, _ANSWERS, _FOLDER = (
    Option(heading=heading) for heading in ("Tasks", "Learning", "Episodes", "Answers", "Folder of the run")
)

# The fields' own defaults are those of the tiny policy.
PRETRAINED_DEFAULTS: Mapping[str, float | None] = {
    "steps": 200,
    "rollouts": 32,
    "micro_batch": None,
    "learning_rate": 2e-6,
    "sft_batch": 8,
    "sft_learning_rate": 1e-5,
    "adam_beta2": 0.999,
    "entropy_coef": 0.0,
    "max_turns": 16,
    "max_action_tokens": 256,
    "max_context": 4096,
    "checkpoint_every": 25,
    "eval_episodes": 64,
    "threads": None,
    "traces_sample": 1.0,
    "gradient_checkpointing": None,
}
"""Defaults of a pretrained model, which wants small steps; ``None`` is chosen by model and machine."""


_SECTIONS: dict[str, type[BaseModel]] = {
    "lora": LoraSettings,
    "curriculum": CurriculumStage,
    "sampler": SamplerSettings,
    "vllm": VllmSettings,
}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class TrainConfig(BaseModel):
    """Settings of a training run; every value has a default but the environment.

    The defaults are those of the tiny policy. A pretrained model has other defaults for the length of the run, the
    batch, the learning rate and the limits; see ``PRETRAINED_DEFAULTS`` in this module or the run's ``config.yaml``.

    Example:
        >>> TrainConfig(environment="catch").rollouts
        128
        >>> TrainConfig(environment="catch", model="Qwen/Qwen3-0.6B").rollouts
        32
    """

    # What was given may hold the password of a database.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    environment: str = Field(description="name of an environment, its folder, or a server's URL")
    environments: dict[str, EnvironmentSettings] = Field(
        default_factory=dict, description="several environments, by names of your own, instead of one"
    )
    model: Annotated[str, Option()] = Field(
        default=TINY, description="'tiny', 'smollm2', a model's id on the Hub, its folder, or a GGUF file"
    )
    seed: Annotated[int, Option()] = Field(default=1, ge=0, description="seed that every random choice derives from")

    tasks: Annotated[int | str | None, _TASKS] = Field(
        default=None,
        description="tasks to train on: a number of seeds, a split of the environment's tasks, or a file of them; "
        "default: a new seed for each group of episodes",
    )
    eval_tasks: Annotated[str | None, _TASKS] = Field(
        default=None,
        description="split of the tasks, or a file of them, for the comparison before and after; default: the split or "
        "file of the training's tasks, else fresh seeds",
    )
    reset: Annotated[dict[str, Any], Option(metavar="NAME=VALUE", heading="Tasks")] = Field(
        default_factory=dict, description="parameters of every reset beside the seed, as in difficulty=hard"
    )
    curriculum: list[CurriculumStage] = Field(
        default_factory=list, description="stages of the training before its own resets; each follows the one before"
    )
    sampler: Annotated[SamplerSettings | None, _TASKS] = Field(
        default=None, description="choose the task of each group of episodes by a sampler, among those of tasks"
    )

    sft: Annotated[int | str | None, Option(metavar="N|FOLDER|FILE|postgresql://...", heading="Warm-up")] = Field(
        default=None,
        description="episodes to learn from first: a number, which the scripted player plays; a folder of openenv "
        "collect; or traces: their file, their database without its password, or a .jsonl exported from them",
    )
    sft_min_reward: Annotated[float | None, Option(("--min-reward",), heading="Warm-up")] = Field(
        default=None, description="lowest reward of an episode to learn from; default: any"
    )
    sft_epochs: float = Field(default=1.0, gt=0, description="how often each of these episodes is learned from")
    sft_batch: int = Field(default=2, ge=1, description="episodes in each step of this warm-up")
    sft_learning_rate: float = Field(default=3e-3, gt=0, description="rate of AdamW at the start of the warm-up")
    grpo: Annotated[bool, _LEARNING] = Field(
        default=True, description="then let the model play, and learn from rewards"
    )

    lora: Annotated[LoraSettings | None, _LEARNING] = Field(
        default=None, description="learn additions instead of all weights"
    )
    vllm: VllmSettings | None = Field(default=None, description="let vLLM write the answers in training")

    steps: Annotated[int, _LEARNING] = Field(default=300, ge=1, description="optimiser steps")
    rollouts: Annotated[int, _LEARNING] = Field(default=128, ge=2, description="episodes for each optimiser step")
    group_size: Annotated[int, _LEARNING] = Field(
        default=8, ge=2, description="episodes with the same seed, compared with each other"
    )
    micro_batch: Annotated[int | None, _LEARNING] = Field(
        default=None, ge=1, description="episodes in one backward pass; default: all"
    )
    learning_rate: Annotated[float, _LEARNING] = Field(default=3e-3, gt=0, description="rate of AdamW at the start")
    lr_schedule: Literal["linear", "cosine", "constant"] = Field(default="linear", description="how the rate changes")
    adam_beta2: float = Field(default=0.95, gt=0, lt=1, description="memory of AdamW for the size of gradients")
    max_grad_norm: float = Field(default=1.0, gt=0, description="gradients are scaled down to this norm")
    scale_rewards: Literal["batch", "group", "none"] = Field(
        default="batch", description="what advantages are divided by"
    )
    resample: Annotated[int, _LEARNING] = Field(
        default=0,
        ge=0,
        description="rounds in a step of playing other tasks for groups without variance, as in DAPO; default: none",
    )
    reward_components: Annotated[
        dict[str, float], Option(("--reward-component",), metavar="NAME=WEIGHT", heading="Learning")
    ] = Field(
        default_factory=dict,
        description="component of the reward to learn from, with its weight; several are normalised each by itself; "
        "default: the whole reward",
    )
    loss_type: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = Field(default="dapo", description="TRL's loss_type")
    entropy_coef: float | None = Field(
        default=None,
        ge=0,
        description="reward for a policy that keeps trying other actions; default: 0.02, and 0 after a warm-up",
    )
    beta: float = Field(default=0.0, ge=0, description="weight of the KL divergence from the model at the start")

    form: Annotated[Literal["tools", "text"], _EPISODES] = Field(
        default="text",
        description="form of the actions: calls of tools, or texts; an environment of tools alone is played by calls",
    )
    temperature: Annotated[float, _EPISODES] = Field(
        default=1.0, gt=0, description="temperature of sampling in training"
    )
    eval_temperature: float | None = Field(
        default=None,
        ge=0,
        description="temperature of the sampled figure in evaluation, beside the greedy one; 0 for none; default: that "
        "of training",
    )
    max_turns: Annotated[int, _EPISODES] = Field(
        default=32, ge=1, description="actions after which an episode is cut off"
    )
    max_action_tokens: Annotated[int, _EPISODES] = Field(
        default=8, ge=1, description="tokens that a model may write for one action"
    )
    max_context: Annotated[int, _EPISODES] = Field(
        default=2048, ge=16, description="tokens of an episode after which it is cut off"
    )
    illegal_answers: Annotated[IllegalAnswers, _ANSWERS] = Field(default="fallback", description=ILLEGAL_ANSWERS)
    illegal_penalty: Annotated[float, _ANSWERS] = Field(
        default=0.1, ge=0, description="penalty for each illegal action, off the reward"
    )
    fallback: Annotated[str | None, _ANSWERS] = Field(
        default=None, description="action that an illegal text counts as; default: the environment's own"
    )
    lenient: Annotated[bool, _ANSWERS] = Field(default=False, description=LENIENT)
    step_timeout_s: Annotated[float, _EPISODES] = Field(
        default=STEP_TIMEOUT_S, gt=0, description="seconds for a reset or a step, after which its episode is given up"
    )
    system_prompt: Annotated[str | None, _EPISODES] = Field(
        default=None, description="first message of every conversation of a pretrained model; default: none"
    )
    thinking: Annotated[bool, _EPISODES] = Field(
        default=False, description="let the chat template request reasoning before an action"
    )

    tiny_hidden: int = Field(default=32, ge=16, multiple_of=16, description="width of the tiny policy")
    tiny_layers: int = Field(default=1, ge=1, description="layers of the tiny policy")
    device: Annotated[Literal["auto", "cpu"], Option()] = Field(
        default="auto", description="device to compute on; auto is a GPU for a pretrained model, where there is one"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="float32",
        description="numbers of a pretrained model's weights; with lora, whose additions have 32 bits, bfloat16 takes "
        "half the memory, and half the time on processors that calculate with it; others are five to "
        "twenty times slower in it; auto measures which one is faster, where lora is set, and is float32 without lora",
    )
    threads: int | None = Field(default=1, ge=0, description="threads of torch on the CPU; 0 leaves torch's own choice")
    gradient_checkpointing: bool | None = Field(default=False, description="save memory by computing activations twice")

    eval_episodes: Annotated[int, _TASKS] = Field(
        default=200, ge=1, description="fresh seeds for the comparison before and after"
    )
    eval_every: Annotated[int | None, _TASKS] = Field(
        default=None,
        ge=1,
        description="optimiser steps between two evaluations of the model in training, greedy, on the tasks of the "
        "comparison; the best model is kept; default: none",
    )
    checkpoint_every: Annotated[int, _FOLDER] = Field(
        default=100, ge=1, description="optimiser steps between two checkpoints"
    )
    checkpoints_kept: Annotated[int, _FOLDER] = Field(
        default=2, ge=1, description="checkpoints that are kept, the newest"
    )
    checkpoints_max_gb: Annotated[float | None, _FOLDER] = Field(
        default=None,
        gt=0,
        description="GB of checkpoints beyond which the oldest go; the newest stays; default: no limit",
    )
    traces: Annotated[bool, _FOLDER] = Field(
        default=True, description="record the episodes in the run's folder, in traces.db; see openenv traces"
    )
    traces_sample: Annotated[float, _FOLDER] = Field(
        default=0.25, gt=0, le=1, description="share of the episodes that are recorded"
    )
    traces_leave_out: Annotated[list[FieldPath], Option(metavar="PATH", heading="Folder of the run")] = Field(
        default_factory=list, description="field that is not recorded, as observation.screenshot"
    )
    prices: Annotated[Path | None, Option(metavar="FILE", heading="Folder of the run")] = Field(
        default=None,
        description="YAML, TOML or JSON file with prices in US dollars, of models' tokens, of a sandbox and of CPU",
    )
    report_to: Annotated[list[str], Option(metavar="TRACKER", heading="Folder of the run")] = Field(
        default_factory=list, description="tracker, as TRL's report_to names it"
    )
    output_dir: Annotated[Path, Option(metavar="FOLDER", heading="Folder of the run")] = Field(
        default=Path("runs"), description="folder that the run's folder is made in"
    )
    name: Annotated[str | None, _FOLDER] = Field(
        default=None, description="name of the run's folder; default: from the time"
    )

    @property
    def entropy_bonus(self) -> float:
        """The weight of the policy's entropy in what GRPO maximises.

        After a warm-up most groups soon have equal rewards, so the bonus would be the only gradient left. AdamW scales
        it up to whole steps, which take the policy away from what it has learned.
        """
        if self.entropy_coef is not None:
            return self.entropy_coef
        return _ENTROPY_COEF if self.sft is None else 0.0

    @property
    def answer_rule(self) -> AnswerRule:
        """Reading of answers, and effect of an illegal one."""
        return AnswerRule(self.illegal_answers, self.illegal_penalty, self.fallback, self.lenient)

    @property
    def with_tools(self) -> bool | None:
        """True where actions are calls of tools; ``None`` where they are so in environments of tools alone."""
        return True if self.form == "tools" else None

    @property
    def is_tiny(self) -> bool:
        """True if the built-in tiny policy is trained."""
        return self.model == TINY

    @property
    def trained_tasks(self) -> str | None:
        """The split or the file on whose tasks the model is trained; ``None`` for seeds."""
        return self.tasks if isinstance(self.tasks, str) else None

    @property
    def evaluated_tasks(self) -> str | None:
        """The split or the file on whose tasks players are compared; ``None`` for fresh seeds."""
        return self.eval_tasks or self.trained_tasks

    @property
    def evaluated_steps(self) -> range:
        """Optimiser steps after which the model is evaluated in training; after the last it is evaluated anyway."""
        every = self.eval_every if self.grpo else None
        return range(0) if every is None else range(every, self.steps, every)

    @property
    def sampled_temperature(self) -> float:
        """Temperature of the sampled figure in evaluations; 0 where there is none."""
        return self.temperature if self.eval_temperature is None else self.eval_temperature

    @property
    def resets(self) -> list[dict[str, Any]]:
        """Parameters of resets beside the seed: in each stage of the curriculum, then in the rest of the run."""
        return [*({**self.reset, **stage.reset} for stage in self.curriculum), self.reset]

    @property
    def parts(self) -> dict[str, "TrainConfig"]:
        """The settings of each of several environments by its name, as if it were alone; of one, with an empty name."""
        return {name: self._part(own) for name, own in self.environments.items()} or {"": self}

    def _part(self, own: EnvironmentSettings) -> "TrainConfig":
        given = {name: getattr(own, name) for name in ("max_turns", "fallback") if getattr(own, name) is not None}
        alone: dict[str, Any] = {"environment": own.environment, "environments": {}, "reset": own.reset}
        alone |= {"curriculum": own.curriculum, "tasks": own.tasks, "eval_tasks": own.eval_tasks}
        return self.model_copy(update={**alone, **given})

    def reset_at(self, step: int) -> dict[str, Any]:
        """Return what the resets of an optimiser step, the first of which is 0, are passed beside the seed."""
        ends = accumulate(stage.steps for stage in self.curriculum)
        return next((reset for end, reset in zip(ends, self.resets, strict=False) if step < end), self.reset)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults_of_a_pretrained_model(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("model", TINY) != TINY:
            return {**PRETRAINED_DEFAULTS, **given}
        return given

    @model_validator(mode="before")
    @classmethod
    def _several_environments_are_named_together(cls, given: Any) -> Any:
        several = given.get("environments") if isinstance(given, Mapping) else None
        if not several or not isinstance(several, Mapping):
            return given
        together = "+".join(map(str, several))
        if given.get("environment", together) != together:
            raise ValueError(f"expected environment or environments, not both; got environment {given['environment']}")
        return {**given, "environment": together}

    @field_validator("environments")
    @classmethod
    def _names_are_plain(cls, several: dict[str, EnvironmentSettings]) -> dict[str, EnvironmentSettings]:
        for name in several:
            if not _NAME.fullmatch(name):
                raise ValueError(f"expected names of letters, digits, '_', '.' and '-'; got {name!r}")
        return several

    @field_validator("tasks")
    @classmethod
    def _tasks_are_some(cls, tasks: int | str | None) -> int | str | None:
        return number_in(tasks, "expected at least one task to train on")

    @field_validator("sft")
    @classmethod
    def _examples_are_some(cls, sft: int | str | None) -> int | str | None:
        if isinstance(sft, str) and passwords_in(sft):
            raise ValueError(
                "expected the address of a database without its password, which the run's config.yaml would keep; set "
                "PGPASSWORD, or write it into ~/.pgpass"
            )
        return number_in(sft, "expected at least one episode to learn from")

    @field_validator("reward_components")
    @classmethod
    def _weights_are_finite(cls, components: dict[str, float]) -> dict[str, float]:
        if not all(map(math.isfinite, components.values())):
            raise ValueError("expected finite numbers as weights")
        return components

    @model_validator(mode="after")
    def _components_are_those_of_one_environment(self) -> "TrainConfig":
        if self.environments and self.reward_components:
            raise ValueError("reward_components is for a run of one environment; leave it out, or environments")
        return self

    @model_validator(mode="after")
    def _seeds_are_the_runs(self) -> "TrainConfig":
        if any("seed" in reset for part in self.parts.values() for reset in part.resets):
            raise ValueError("resets get their seeds from the run's seed; leave out seed")
        return self

    @model_validator(mode="after")
    def _several_have_their_own(self) -> "TrainConfig":
        shared = [name for name in ("reset", "curriculum", "fallback", "tasks", "eval_tasks") if getattr(self, name)]
        if self.environments and shared:
            raise ValueError(f"with environments, {shared[0]} belongs to each of them; move it there")
        if self.environments and isinstance(self.sft, str):
            raise ValueError(f"with environments, sft must be a number of episodes of each, not {self.sft}")
        return self

    @model_validator(mode="after")
    def _a_sampler_has_tasks_to_choose_from(self) -> "TrainConfig":
        for part in self.parts.values() if self.sampler else ():
            if part.tasks is None:
                raise ValueError(
                    "a sampler needs tasks to choose from: set tasks to a number of seeds, a split or a file"
                )
            if part.curriculum:
                raise ValueError(
                    "expected stages (curriculum) or a sampler, which both choose what is played; got both"
                )
        return self

    @model_validator(mode="after")
    def _does_something(self) -> "TrainConfig":
        if self.sft is None and not self.grpo:
            raise ValueError("without grpo there has to be sft, or nothing is learned")
        return self

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

    @model_validator(mode="after")
    def _tiny_policy_reads_observations_alone(self) -> "TrainConfig":
        if self.is_tiny and self.system_prompt is not None:
            raise ValueError("system_prompt needs a pretrained model, and model is 'tiny'; leave it out, or set model")
        return self

    @model_validator(mode="after")
    def _rounded_weights_are_not_learned(self) -> "TrainConfig":
        if self.dtype == "bfloat16" and self.lora is None:
            raise ValueError(
                f"dtype {self.dtype} rounds away what all weights learn in a step; learn additions instead, with lora, "
                "or leave out dtype"
            )
        return self

    @model_validator(mode="after")
    def _vllm_can_serve_the_model(self) -> "TrainConfig":
        if self.vllm is None:
            return self
        if self.is_tiny:
            raise ValueError("vllm needs a pretrained model, and model is 'tiny'; leave out vllm, or set model")
        length = self.vllm.max_model_length
        if length is not None and length < self.max_context:
            raise ValueError(f"vllm.max_model_length ({length}) must be at least max_context ({self.max_context})")
        return self

    @property
    def price_list(self) -> Prices | None:
        """The prices in the file, which may be gone when others read these settings; ``None`` without a file."""
        return None if self.prices is None else read_prices(self.prices)

    def make_folder(self, environment: str) -> RunFolder:
        """Make the folder of a new run, with these settings in it.

        Args:
            environment: Short name of the environment.

        Returns:
            The folder.

        Raises:
            ConfigurationError: The settings name a folder that is there already.
        """
        folder = RunFolder.create(self.output_dir, f"{environment}-{Path(self.model).name}", self.name)
        self.save(folder.config)
        return folder

    def save(self, path: Path) -> None:
        """Write the settings as YAML, in the form that `load_config` reads."""
        # In ASCII, with the rest escaped: Unicode has line breaks that YAML would not preserve.
        path.write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False), encoding="ascii")


def described_settings() -> dict[str, str]:
    """Return the description of each setting, with the defaults of both kinds of models where they differ."""
    described = {name: field.description or "" for name, field in TrainConfig.model_fields.items()}
    for name, other in PRETRAINED_DEFAULTS.items():
        text, _, words = described[name].partition("; default: ")
        default = words or _shown(TrainConfig.model_fields[name].default)
        described[name] = f"{text}; default: {default} for tiny, else {_shown(other)}"
    return described


def _shown(value: float | None) -> str:
    if value is None:
        return "chosen by model and machine"
    return ("off", "on")[value] if isinstance(value, bool) else f"{value:g}"


def load_config(file: Path | None = None, **given: Any) -> TrainConfig:
    """Make the settings of a run.

    Args:
        file: A YAML file with any of the fields of `TrainConfig`.
        **given: Fields that win over the file's, those of a section one by one; ``None`` counts as not given.

    Returns:
        The settings.

    Raises:
        ConfigurationError: A field is unknown, missing or out of range, or the file is no YAML mapping.

    Example:
        >>> load_config(environment="catch", steps=10, seed=None).steps
        10
    """
    fields = {} if file is None else _read_fields(file)
    for name, value in given.items():
        if value is not None:
            before = fields.get(name) if name in _SECTIONS and isinstance(value, dict) else None
            fields[name] = {**before, **value} if isinstance(before, dict) else value
    try:
        return TrainConfig(**fields)
    except ValidationError as error:
        where = "" if file is None else f" (settings from {file} and the command line)"
        faults = "; ".join(_fault_text(dict(fault)) for fault in error.errors())
        raise ConfigurationError(f"{faults}{where}.") from error


def _read_fields(file: Path) -> dict[str, Any]:
    fields = read_yaml(file)
    if not isinstance(fields, dict):
        raise ConfigurationError(f"{file} must hold a mapping from settings to values, not {type(fields).__name__}.")
    return fields


def _fault_text(fault: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        return f"{name} is missing"
    if fault["type"] == "extra_forbidden":
        near = nearest_name(name, _names_beside(fault["loc"]))
        return f"there is no setting {name!r}" + (f"; did you mean {near!r}?" if near else "")
    message = str(fault["msg"]).removeprefix("Value error, ").removesuffix(".")
    given = fault["input"]
    if not name or f"got {given!r}" in message or (isinstance(given, str) and passwords_in(given)):
        return f"{name}: {message}".removeprefix(": ")
    return f"{name}: {message}; got {given!r}"


def _names_beside(path: Sequence[str | int]) -> list[str]:
    """Return the names of the settings in the section of a fault, as faults name them."""
    if len(path) == 1:
        section: type[BaseModel] | None = TrainConfig
    elif path[0] == "environments" and len(path) == 3:
        section = EnvironmentSettings
    else:
        section = _SECTIONS.get(str(path[0]))
    return [".".join(map(str, (*path[:-1], name))) for name in section.model_fields] if section else []
