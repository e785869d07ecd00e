"""One object that makes an environment a training ground: what TRL's ``GRPOTrainer`` takes, slot by slot."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from inspect import signature
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self

from openenv.adapters.text import hidden_text_warning
from openenv.auto.discovery import find_environment, located, short_name
from openenv.auto.making import make
from openenv.auto.target import MADE, Target, TargetKind
from openenv.core.client.tools import task_columns
from openenv.core.client_types import StepResult
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import check_reset_parameters, nearest_name, without_unknown
from openenv.core.sync_client import SyncEnvClient
from openenv.train.spec.environment_reward import ComponentReward, EnvironmentReward
from openenv.train.spec.sessions import CAPACITY_WAIT_S, Sessions
from openenv.train.spec.task_dataset import Prompt, dataset_of, is_dataset, messages_of_row
from openenv.train.spec.tool_environment import ToolEnvironment, tool_environment_class
from openenv.train.tasks.task_rows import task_rows
from openenv.train.tools.contents import Content, call_content, joined
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

    from openenv.train.spec.rollout_function import RolloutFunction

__all__ = ["EnvSpec", "EnvSpecs"]

Message = dict[str, Any]

logger = logging.getLogger(__name__)

DEFAULT_SESSIONS = 1024
_OWN_DATASET = (
    "TRL passes a rollout_func the prompts alone, without the columns of a dataset of your own: pass that as "
    "EnvSpec(..., tasks=dataset), which keeps its prompts, and train on the spec's train_dataset; or take "
    "environment_factory, whose reset is passed the columns."
)
# What the last message of a prompt says of its row.
_TASK = "task"
_ENVIRONMENT = "environment"


class EnvSpec:
    """An environment, its tasks, and how a model is set to them.

    Nothing is started before it is needed: the server (in a process of its own, unless a URL is given) with the first
    session or question. Everything ends with `close`, with the ``with`` block, or with the process.

    Args:
        target: What `openenv.make` takes: name of an installed environment (``wordle``), an environment's folder or
            file, the address of a running server, ``PREFIX:ID`` (``ors:http://host:8080``, ``gymnasium:CartPole-v1``),
            an image as ``docker:IMAGE``, a Space, a class; or `Sessions` that are open.
        tasks: What to play: a number of seeds; the name of a split that the environment lists; a list of tasks, each a
            mapping of what ``reset`` takes; a ``datasets.Dataset`` of such, whose column ``prompt``, if it has one, is
            what the model is shown before the first observation. By default seeds.
        num_tasks: How many tasks at most. By default all that are listed, and of seeds 1000.
        seed: Chooses the seeds.
        system_prompt: The first message of every prompt.
        instructions: What the user's message says before the first observation.
        max_turns: Tool calls after which an episode takes no more; by default only the environment ends it.
        sessions: Sessions that a server which is started here may hold at once: one for each rollout at a time. By
            default 1024 where the environment allows many.
        gives_reward: Whether the environments give TRL their reward by ``get_reward``, which it counts beside any
            reward function; ``reward_funcs`` is then empty.
        reward_components: Components of the environment's reward to train on, with a weight for each; ``reward_funcs``
            then has a function for each, and ``reward_weights`` the weights. By default the reward is one function.
        client_options: Passed to the client, such as ``message_timeout_s`` and ``token``.
        reset: Passed to every ``reset``, beside the task, such as ``{"difficulty": "hard"}``.
        warns_of_hidden_text: Whether to log a warning where the text of first observations is only in their metadata,
            which no model is shown.
        **unknown: Nothing; an option that does not exist is an error that names the nearest.

    Attributes:
        name: Short name of the environment.
        system_prompt: As above.
        instructions: As above.
        max_turns: As above.

    Raises:
        ConfigurationError: ``max_turns`` or ``sessions`` is below 1, ``reward_components`` has a weight that is no
            finite number or stands beside ``gives_reward``, or there is no such option.

    Example::

        with EnvSpec("wordle", num_tasks=1000, system_prompt="You play Wordle.") as spec:
            trainer = GRPOTrainer(
                model="Qwen/Qwen3-0.6B",
                train_dataset=spec.train_dataset,
                environment_factory=spec.environment_factory,  # or rollout_func=spec.rollout_func
                reward_funcs=spec.reward_funcs,
            )
            trainer.train()
    """

    def __init__(
        self,
        target: Any,
        *,
        tasks: "int | str | Iterable[Mapping[str, Any]] | Dataset | None" = None,
        num_tasks: int | None = None,
        seed: int = 0,
        system_prompt: str | None = None,
        instructions: str = "",
        max_turns: int | None = None,
        sessions: int | None = None,
        gives_reward: bool = False,
        reward_components: Mapping[str, float] | None = None,
        client_options: Mapping[str, Any] | None = None,
        reset: Mapping[str, Any] | None = None,
        warns_of_hidden_text: bool = True,
        **unknown: Never,
    ) -> None:
        _check_known(unknown)
        _check_least("max_turns", max_turns)
        _check_least("sessions", sessions)
        _check_components(reward_components, gives_reward=gives_reward)
        if not isinstance(target, Sessions):
            target = Target.of(target).required(MADE, "EnvSpec")
        self.name = target.name if isinstance(target, Sessions) else short_name(target)
        self.system_prompt = system_prompt
        self.instructions = instructions
        self.max_turns = max_turns
        self._target = target
        self._tasks = tasks
        self._num_tasks = num_tasks
        self._seed = seed
        self._sessions = sessions
        self._gives_reward = gives_reward
        self._components = dict(reward_components or {})
        self._client_options = {"capacity_wait_s": CAPACITY_WAIT_S, **(client_options or {})}
        self._reset = dict(reset or {})
        self._was_checked = not warns_of_hidden_text
        self._lock = RLock()
        self._closed = False

    @property
    def pool(self) -> Sessions:
        """The sessions with the server.

        Raises:
            ConfigurationError: The spec was closed.
            EnvironmentNotFoundError: There is no such environment.
        """
        with self._lock:
            if self._closed:
                raise ConfigurationError(f"The EnvSpec of {self.name} was closed; make a new one.")
            return self._opened_pool

    @property
    def client(self) -> SyncEnvClient[Any, Any, Any]:
        """The client that all sessions are made of; it starts the server on its first use."""
        return self.pool.client

    @property
    def environments(self) -> Mapping[str, Self]:
        """This spec, by the name that a run of one environment has for it: none."""
        return {"": self}

    @property
    def tools(self) -> EnvironmentTools:
        """The environment's tools. Asking for them starts the server."""
        with self._lock:
            return self._asked_tools

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What ``reset`` is passed for each task, in the dataset's order."""
        with self._lock:
            return self._listed_rows

    @cached_property
    def train_dataset(self) -> "Dataset":
        """A row for each task: the ``prompt``, and what ``reset`` takes, for reward functions to see.

        The prompt is a conversation whose last message knows which task it is, under the key ``task``.
        """
        return dataset_of([self._prompt(index) for index in range(len(self.rows))], self.rows)

    @property
    def environment_factory(self) -> Callable[[], Any]:
        """Makes a ``ToolEnvironment`` for one rollout at a time, whose methods are the tools."""
        return self._make_environment

    @cached_property
    def rollout_func(self) -> "RolloutFunction":
        """Plays a batch of episodes, all environments stepped at once.

        See `RolloutFunction`, which can also be made by hand, with settings of how the model acts.
        """
        from openenv.train.spec.rollout_function import RolloutFunction  # it imports what generation needs

        return RolloutFunction(self)

    @cached_property
    def reward_funcs(self) -> list[Any]:
        """One reward function, an ``EnvironmentReward``: the sum of the environment's rewards.

        With ``reward_components``, a ``ComponentReward`` for each.
        """
        return self._rewards_of(None)

    @cached_property
    def reward_weights(self) -> list[float] | None:
        """The weights of ``reward_funcs``, for ``GRPOConfig``; ``None`` without ``reward_components``."""
        return list(self._components.values()) or None

    def _rewards_of(self, environment: str | None) -> list[Any]:
        """Return the reward functions, for an environment of the given name among several."""
        if self._gives_reward:
            return []
        whole = EnvironmentReward(environment)
        if not self._components:
            return [whole]
        # The first of them logs how the episodes went.
        return [
            ComponentReward(name, environment, whole if number == 0 else None)
            for number, name in enumerate(self._components)
        ]

    def environment_of(self, prompt: Sequence[Mapping[str, Any]] | str) -> str:
        """Name the environment of a prompt, as `environments` does; there is one only."""
        return ""

    def task_of(self, prompt: Sequence[Mapping[str, Any]] | str) -> dict[str, Any]:
        """Find what ``reset`` is passed for a prompt of the dataset.

        Args:
            prompt: The prompt.

        Raises:
            ConfigurationError: It is no prompt of this spec's dataset.
        """
        index = _task_index(prompt)
        if index is None or not 0 <= index < len(self.rows):
            raise ConfigurationError(
                f"Expected a prompt of the train_dataset of this EnvSpec ({self.name}), got {prompt!r:.200}. "
                f"Its last message says which task it is, under the key {_TASK!r}. {_OWN_DATASET}"
            )
        return {**self._reset, **self.rows[index]}

    def task_of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Find what ``reset`` is passed for a row of a dataset, of this spec's or of another.

        Args:
            row: The columns.
        """
        prompt = row.get("prompt")
        if prompt is not None and _task_index(prompt) is not None:
            return self.task_of(prompt)
        return {**self._reset, **task_columns(row)}

    def taken(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Cut a task to what ``reset`` takes: rows of a dataset may have further columns, for reward functions.

        Args:
            task: What ``task_of`` or ``task_of_row`` found.

        Raises:
            ConfigurationError: ``reset`` does not take a parameter of this spec, or of its list of tasks.
        """
        with self._lock:
            return without_unknown(self._reset_schema, task)

    def messages_of(self, prompt: Sequence[Mapping[str, Any]], observation: Content | StepResult[Any]) -> Prompt:
        """Write the conversation that a model sees first: the prompt with the first observation.

        It is the one that TRL makes of a row and of what an environment's ``reset`` returns.

        Args:
            prompt: A prompt of the dataset.
            observation: What the model is shown of the reset, or the reset's result.
        """
        shown = call_content(observation, self.pool.pixels) if isinstance(observation, StepResult) else observation
        own = (_TASK, _ENVIRONMENT)
        *before, last = ({key: value for key, value in message.items() if key not in own} for message in prompt)
        return [*before, {**last, "content": joined(last.get("content") or "", shown)}]

    def check_shown(self, observation: Any) -> None:
        """Log a warning, once, if the text of a first observation is only in its metadata, which no model is shown.

        Args:
            observation: What a reset gave.
        """
        warning = None if self._was_checked else hidden_text_warning(observation)
        self._was_checked = True
        if warning is not None:
            logger.warning("%s: %s", self.name, warning)

    def close(self) -> None:
        """End all sessions, and the server if it was started here. May be called twice."""
        with self._lock:
            self._closed = True
            pool = self.__dict__.get("_opened_pool")
        if pool is not None:
            pool.close()

    def __enter__(self) -> Self:
        """Return the spec."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Name the environment."""
        return f"EnvSpec({str(self._described_target)!r})"

    @property
    def _described_target(self) -> str:
        return self.name if isinstance(self._target, Sessions) else str(self._target)

    @cached_property
    def _opened_pool(self) -> Sessions:
        if isinstance(self._target, Sessions):
            return self._target
        return Sessions(self.name, _client(self._target, self._sessions, self._client_options))

    @cached_property
    def _reset_schema(self) -> Mapping[str, Any] | None:
        """What ``reset`` takes, against which the spec's own parameters have been checked."""
        schema = self.pool.reset_schema
        check_reset_parameters(schema, self._reset, f"EnvSpec({str(self._described_target)!r})")
        if isinstance(self._tasks, Sequence) and not isinstance(self._tasks, str):
            for row in self.rows:
                check_reset_parameters(schema, row, f"EnvSpec({str(self._described_target)!r}, tasks=...)")
        return schema

    @cached_property
    def _asked_tools(self) -> EnvironmentTools:
        return self.pool.tools or self.pool.ask_tools(self.taken({**self._reset, **self.rows[0]}))

    @cached_property
    def _listed_rows(self) -> list[dict[str, Any]]:
        client = self.client if isinstance(self._tasks, str) else None
        rows = task_rows(client, self._tasks, num_tasks=self._num_tasks, seed=self._seed)
        return list(map(task_columns, rows)) if is_dataset(self._tasks) else rows

    @cached_property
    def _environment_class(self) -> type[ToolEnvironment]:
        return tool_environment_class(self.name, self.tools, gives_reward=self._gives_reward)

    def _make_environment(self) -> ToolEnvironment:
        return self._environment_class(self)

    def _prompt(self, index: int) -> Prompt:
        system = [] if self.system_prompt is None else [{"role": "system", "content": self.system_prompt}]
        instructions = f"{self.instructions}\n\n" if self.instructions else ""
        tasks: Any = self._tasks
        own = tasks[index].get("prompt") if is_dataset(tasks) else None
        *before, last = [{"role": "user", "content": ""}] if own is None else messages_of_row(own)
        content = joined(instructions, last["content"]) if instructions else last["content"]
        return [*system, *before, {**last, "content": content, _TASK: index}]


class EnvSpecs:
    """Several environments in one run.

    Args:
        specs: The environments by the names that the dataset's column ``environment`` has for them.
        order: The name of each row's environment, in the dataset's order; by default they are interleaved evenly.

    Attributes:
        specs: As above.

    Raises:
        ConfigurationError: There are none, or ``order`` names more or other rows than there are.

    Example::

        with EnvSpecs({"wordle": EnvSpec("wordle"), "catch": EnvSpec("catch")}) as specs:
            trainer = GRPOTrainer(
                model="Qwen/Qwen3-0.6B",
                train_dataset=specs.train_dataset,
                environment_factory=specs.environment_factory,
                reward_funcs=specs.reward_funcs,
            )
            trainer.train()
    """

    def __init__(self, specs: Mapping[str, EnvSpec], order: Sequence[str] | None = None) -> None:
        if not specs:
            raise ConfigurationError("Expected at least one EnvSpec, got none.")
        self.specs = dict(specs)
        self._order = order

    @cached_property
    def train_dataset(self) -> "Dataset":
        """The tasks of all of them, interleaved, with the column ``environment``."""
        names = self._interleaved() if self._order is None else list(self._order)
        left = {name: iter(range(len(spec.rows))) for name, spec in self.specs.items()}
        try:
            places = [(name, next(left[name])) for name in names]
        except (KeyError, StopIteration) as error:
            raise ConfigurationError(
                f"Expected the order of the rows of {', '.join(self.specs)}, got {names!r:.200}."
            ) from error
        prompts = [self._prompt(name, index) for name, index in places]
        return dataset_of(prompts, [self.specs[name].rows[index] for name, index in places], environment=names)

    @property
    def environments(self) -> Mapping[str, EnvSpec]:
        """The environments by their names."""
        return self.specs

    def environment_of(self, prompt: Sequence[Mapping[str, Any]] | str) -> str:
        """Name the environment of a prompt.

        Args:
            prompt: The prompt.

        Raises:
            ConfigurationError: It is no prompt of the dataset of these specs.
        """
        last = None if isinstance(prompt, str) or not prompt else prompt[-1]
        name = last.get(_ENVIRONMENT) if isinstance(last, Mapping) else None
        if name not in self.specs:
            raise ConfigurationError(
                f"Expected a prompt of the train_dataset of these EnvSpecs ({', '.join(self.specs)}), got "
                f"{prompt!r:.200}. Its last message names the environment, under the key {_ENVIRONMENT!r}. "
                f"{_OWN_DATASET}"
            )
        return str(name)

    @cached_property
    def rollout_func(self) -> "RolloutFunction":
        """Plays a batch of episodes, each environment its own, with all of its sessions stepped at once.

        See ``openenv.train.spec.rollout_function.RolloutFunction``, which can also be made by hand.
        """
        from openenv.train.spec.rollout_function import RolloutFunction  # it imports what generation needs

        return RolloutFunction(self)

    @property
    def environment_factory(self) -> dict[str, Callable[[], Any]]:
        """The factory of each environment."""
        return {name: spec.environment_factory for name, spec in self.specs.items()}

    @cached_property
    def reward_funcs(self) -> list[Any]:
        """The reward functions of each environment, which give ``None`` where another one was played."""
        return [function for name, spec in self.specs.items() for function in spec._rewards_of(name)]

    @cached_property
    def reward_weights(self) -> list[float] | None:
        """The weights of ``reward_funcs``, for ``GRPOConfig``; ``None`` where no spec has ``reward_components``."""
        if not any(spec.reward_weights for spec in self.specs.values()):
            return None
        return [
            weight
            for name, spec in self.specs.items()
            for weight in spec.reward_weights or [1.0] * len(spec._rewards_of(name))
        ]

    def _interleaved(self) -> list[str]:
        places = sorted(
            ((index + 0.5) / len(spec.rows), number, name)
            for number, (name, spec) in enumerate(self.specs.items())
            for index in range(len(spec.rows))
        )
        return [name for _, _, name in places]

    def _prompt(self, name: str, index: int) -> Prompt:
        *before, last = self.specs[name]._prompt(index)
        return [*before, {**last, _ENVIRONMENT: name}]

    def close(self) -> None:
        """Close all of them."""
        for spec in self.specs.values():
            spec.close()

    def __enter__(self) -> Self:
        """Return the specs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close them."""
        self.close()


def _check_known(unknown: Mapping[str, Any]) -> None:
    """Refuse options that do not exist; parameters of ``reset`` were once given as such."""
    if not unknown:
        return
    name = next(iter(unknown))
    options = [option for option in signature(EnvSpec).parameters if option != "unknown"]
    close = nearest_name(name, options)
    hint = f"; did you mean {close!r}?" if close else "."
    given = ", ".join(f"{option!r}: {value!r:.40}" for option, value in unknown.items())
    raise ConfigurationError(
        f"EnvSpec has no option {name!r}{hint} What every reset is passed goes into reset={{{given}}}."
    )


def _check_least(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ConfigurationError(f"Expected {name} to be 1 or more, got {value}.")


def _check_components(components: Mapping[str, float] | None, *, gives_reward: bool) -> None:
    if components and gives_reward:
        raise ConfigurationError("Expected reward_components or gives_reward, got both: TRL would count rewards twice.")
    for name, weight in (components or {}).items():
        if not math.isfinite(weight):
            raise ConfigurationError(f"Expected a finite number as the weight of {name!r}, got {weight!r}.")


def _client(target: Target, sessions: int | None, options: Mapping[str, Any]) -> SyncEnvClient[Any, Any, Any]:
    target = located(target)
    if target.kind is TargetKind.ADDRESS:
        return make(target, **options).sync()
    return make(target, max_sessions=sessions or _most_sessions(target), **options).sync()


def _most_sessions(target: Target) -> int | None:
    """Return the number of sessions to allow by default: as many as may be wanted, if the class allows several."""
    if target.kind is TargetKind.IMAGE:
        return DEFAULT_SESSIONS
    if target.kind is TargetKind.CLASS:
        return DEFAULT_SESSIONS if EnvironmentFactory(target.source).supports_many else None
    if target.kind is TargetKind.ADAPTED:
        targets = import_module("openenv.adapters.targets")  # it imports what serving needs
        environment: type = targets.find_adapted(target).environment_class
    else:
        environment = find_environment(target).environment_class()
    return DEFAULT_SESSIONS if getattr(environment, "SUPPORTS_CONCURRENT_SESSIONS", False) else None


def _task_index(prompt: Sequence[Mapping[str, Any]] | str) -> int | None:
    last = None if isinstance(prompt, str) or not prompt else prompt[-1]
    index = last.get(_TASK) if isinstance(last, Mapping) else None
    return index if isinstance(index, int) else None
