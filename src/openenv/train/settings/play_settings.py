"""The settings of episodes that are played outside of training: to collect them, or to evaluate a player."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from openenv.auto.discovery import short_name
from openenv.auto.target import Target, is_address
from openenv.core.variables import Option, model_api_key
from openenv.records.answers import AnswerRule, IllegalAnswers
from openenv.records.prices import Prices, TokenPrice, read_prices
from openenv.records.run_folder import RunFolder
from openenv.train.episodes.budget import Budget
from openenv.train.settings.config import (
    ILLEGAL_ANSWERS,
    ILLEGAL_PENALTY,
    LENIENT,
    STEP_TIMEOUT_S,
    FieldPath,
    TrainConfig,
    load_config,
)

__all__ = ["PlaySettings"]

DEFAULT_MAX_TURNS = 32


def _checked_prices(file: Path | None) -> Path | None:
    """Check that a file of prices, if one is named, can be read."""
    if file is not None:
        read_prices(file)
    return file


# Headings of the options of `openenv collect` and `openenv eval`.
_PLAYER, _EPISODES, _LIMITS, _ANSWERS, _FOLDER = (
    Option(heading=heading) for heading in ("Player", "Episodes", "Limits", "Answers", "Folder")
)


class PlaySettings(BaseModel):
    """Settings of episodes: the environment, the player, and how they are played.

    Example:
        >>> PlaySettings(environment="catch", player="scripted").who
        'scripted player'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str = Field(description="name of an environment, its folder, PREFIX:ID, or a server's URL")
    player: Annotated[Literal["scripted", "random"] | None, _PLAYER] = Field(
        default=None,
        description="player without a model: the one that the environment brings along, or a random one; default: "
        "scripted, without a model",
    )
    base_url: Annotated[str | None, Option(metavar="URL", heading="Episodes")] = Field(
        default=None, description="address of the environment's server; default: a server of its own is started"
    )
    model: Annotated[str | None, _PLAYER] = Field(
        default=None,
        description="a model's name at its server; or the folder of a run, a checkpoint or a model, a GGUF file, "
        "'smollm2', or an id on the Hub",
    )
    llm_endpoint: Annotated[str | None, Option(metavar="URL", heading="Player")] = Field(
        default=None, description="address of the model's OpenAI-compatible server"
    )
    tasks: Annotated[str | None, _EPISODES] = Field(
        default=None,
        description="split of the environment's tasks, or a file of them; default: as the run has it, else seeds",
    )
    reset: Annotated[dict[str, Any] | None, Option(metavar="NAME=VALUE", heading="Episodes")] = Field(
        default=None,
        description="parameters of every reset beside its task, as in difficulty=hard; default: as the run has it, "
        "else none",
    )
    form: Annotated[Literal["tools", "text"] | None, _PLAYER] = Field(
        default=None,
        description="form of the actions: calls of tools, or texts; default: as the run has it, else text for a model "
        "that is loaded here, and tools",
    )
    system_prompt: Annotated[str | None, _PLAYER] = Field(
        default=None, description="first message of every conversation; default: as the run has it, else none"
    )
    max_turns: Annotated[int | None, _LIMITS] = Field(
        default=None, ge=1, description="actions after which an episode is cut off; default: as the run has it, else 32"
    )
    max_answers: Annotated[int | None, _LIMITS] = Field(
        default=None, ge=1, description="answers after which an episode ends, of which each may have several actions"
    )
    max_episode_tokens: Annotated[int | None, _LIMITS] = Field(
        default=None,
        ge=1,
        description="tokens after which an episode ends, of those that its model reads and writes in all answers",
    )
    max_seconds: Annotated[float | None, _LIMITS] = Field(
        default=None, gt=0, description="seconds after which an episode ends, from the reset's answer on"
    )
    max_price: Annotated[float | None, _LIMITS] = Field(
        default=None,
        gt=0,
        description="US dollars after which an episode ends, for its model's tokens, by --prices or the model's server",
    )
    prices: Annotated[Path | None, AfterValidator(_checked_prices), Option(metavar="FILE", heading="Limits")] = Field(
        default=None,
        description="YAML, TOML or JSON file with prices in US dollars, of models' tokens, of a sandbox and of CPU",
    )
    temperature: Annotated[float, _PLAYER] = Field(
        default=1.0,
        ge=0,
        description="temperature of the model's sampling; default: as the run has it, and 0 (greedy) beside it, else 1",
    )
    max_tokens: Annotated[int | None, _PLAYER] = Field(
        default=None, ge=1, description="tokens that a model may write in one answer"
    )
    illegal_answers: Annotated[IllegalAnswers, _ANSWERS] = Field(default="fallback", description=ILLEGAL_ANSWERS)
    illegal_penalty: Annotated[float, _ANSWERS] = Field(default=0.1, ge=0, description=ILLEGAL_PENALTY)
    fallback: Annotated[str | None, _ANSWERS] = Field(
        default=None, description="action that an illegal text counts as; default: the environment's own"
    )
    lenient: Annotated[bool, _ANSWERS] = Field(default=False, description=LENIENT)
    step_timeout_s: Annotated[float, _EPISODES] = Field(
        default=STEP_TIMEOUT_S, gt=0, description="seconds for a reset or a step, after which its episode is given up"
    )
    traces: Annotated[bool, _FOLDER] = Field(
        default=True, description="record the episodes in the folder, in traces.db; see openenv traces"
    )
    traces_leave_out: Annotated[tuple[FieldPath, ...], Option(metavar="PATH", heading="Folder")] = Field(
        default=(), description="field that is not recorded, as observation.screenshot"
    )
    seed: Annotated[int, _EPISODES] = Field(
        default=1,
        ge=0,
        description="seed that tasks without a list and players derive from; default: as the run has it, else 1",
    )

    @property
    def name(self) -> str:
        """The environment's name for results, wherever its folder is; the address of a server."""
        return self.environment if is_address(self.environment) else short_name(self.environment)

    @property
    def who(self) -> str:
        """The player, in words."""
        return self.model if self.model is not None else f"{self.player} player"

    @property
    def starts_server(self) -> bool:
        """True if a server of the environment is started for the episodes."""
        return self.base_url is None and not is_address(self.environment)

    @property
    def api_key(self) -> str | None:
        """The key that a variable holds for the model's address; ``None`` without one."""
        return model_api_key(self.llm_endpoint or "")

    @property
    def turn_limit(self) -> int:
        """Actions after which an episode is cut off."""
        return DEFAULT_MAX_TURNS if self.max_turns is None else self.max_turns

    @property
    def budget(self) -> Budget:
        """Limits of an episode's answers, tokens, seconds and price."""
        return Budget(self.max_answers, self.max_episode_tokens, self.max_seconds, self.max_price)

    @property
    def price_list(self) -> Prices | None:
        """The prices in the file; ``None`` without a file."""
        return None if self.prices is None else read_prices(self.prices)

    @property
    def token_price(self) -> TokenPrice | None:
        """The price of the model's tokens in the file; ``None`` where it has none."""
        found = self.price_list
        return None if found is None or self.model is None else found.models.get(self.model)

    @property
    def action_form(self) -> Literal["tools", "text"]:
        """Form of the actions; where it is left open, that of a model or player of no run."""
        is_local = self.model is not None and self.llm_endpoint is None
        return self.form or ("text" if is_local else "tools")

    @property
    def answer_rule(self) -> AnswerRule:
        """Reading of answers, and effect of an illegal one."""
        return AnswerRule(self.illegal_answers, self.illegal_penalty, self.fallback, self.lenient)

    def with_defaults(self, *, to_learn_from: bool = False) -> "PlaySettings":
        """Fill in what is left open: from the run in whose folder the model is, if it is in one.

        Args:
            to_learn_from: Whether the episodes are learned from, and so have tasks of the run's training.

        Raises:
            ConfigurationError: The run's settings can't be read.
        """
        own = self.own_config()
        if own is None:
            defaults = {"max_turns": self.turn_limit, "reset": self.reset or {}, "form": self.action_form}
            return self.model_copy(update=defaults)
        as_evaluated = {
            "max_turns": own.max_turns,
            "reset": own.reset,
            "tasks": own.trained_tasks if to_learn_from else own.evaluated_tasks,
            "temperature": own.sampled_temperature,
            "seed": own.seed,
            "system_prompt": own.system_prompt,
            "form": own.form,
            **asdict(own.answer_rule),
        }
        return self.model_copy(update={name: value for name, value in as_evaluated.items() if not self._is_set(name)})

    def decisive(self) -> dict[str, Any]:
        """Return what episodes depend on, as JSON values: no address, time limit or recording."""
        left_out = {"base_url", "llm_endpoint", "step_timeout_s", "prices", "traces", "traces_leave_out"}
        settings = self.model_dump(mode="json", exclude=left_out)
        penalty = self.answer_rule.penalty or None  # what an illegal answer does not cost decides nothing
        own = {"environment": self.name, "max_turns": self.turn_limit, "reset": settings["reset"] or None}
        if self.max_price is not None and self.token_price is not None:
            own["token_price"] = self.token_price.model_dump()
        return {**settings, **own, "illegal_penalty": penalty}

    def has_greedy_figure(self) -> bool:
        """Return whether an evaluation has the greedy figure beside the sampled one, as the run of the model has."""
        own = self.own_config()
        return own is not None and not self._is_set("temperature") and own.sampled_temperature > 0

    def own_config(self) -> TrainConfig | None:
        """Return how the run of the model played this environment; ``None`` if the model is of no run."""
        if self.model is None or self.llm_endpoint is not None:
            return None
        run = RunFolder.of_model(Path(self.model))
        if not run.config.is_file():
            return None
        config = load_config(run.config)
        same = [part for part in config.parts.values() if part.environment == self.environment]
        return same[0] if config.environments and len(same) == 1 else config

    def _is_set(self, name: str) -> bool:
        return name in self.model_fields_set and getattr(self, name) is not None

    @field_validator("reset")
    @classmethod
    def _seeds_are_the_tasks(cls, reset: dict[str, Any] | None) -> dict[str, Any] | None:
        if reset and "seed" in reset:
            raise ValueError("resets get their seeds from the tasks; leave out seed")
        return reset

    @model_validator(mode="after")
    def _one_player(self) -> "PlaySettings":
        if (self.player is None) == (self.model is None):
            raise ValueError("expected either a player or a model")
        if self.llm_endpoint is not None and self.model is None:
            raise ValueError("an address of a model was given, and no model is named")
        addresses = {Target.of(each).text for each in (self.environment, self.base_url) if each and is_address(each)}
        if len(addresses) > 1:
            raise ValueError(
                f"the environment is an address, {self.environment}, and its server has another one, {self.base_url}"
            )
        return self
