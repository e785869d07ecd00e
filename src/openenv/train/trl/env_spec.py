"""One object that makes an environment a training ground: what TRL's ``GRPOTrainer`` takes, slot by slot."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import signature
from itertools import islice
from typing import TYPE_CHECKING, Any, Never

from openenv.auto.target import MADE, Target
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import nearest_name
from openenv.core.sync_client import SyncEnvClient
from openenv.records.answers import AnswerRule, IllegalAnswers
from openenv.train.rewards.environment_reward import ComponentReward, EnvironmentReward
from openenv.train.rollout.sessions import Sessions
from openenv.train.samplers import TaskSampler
from openenv.train.tasks.order import interleaved
from openenv.train.tasks.task_choice import check_number
from openenv.train.tasks.task_dataset import dataset_of, numbered
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.trl.spec_tasks import SpecBase, SpecTasks
from openenv.train.trl.tool_environment import ToolEnvironment, tool_environment_class

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

    from openenv.train.trl.rollout_function import RolloutFunction

__all__ = ["EnvSpec", "EnvSpecs"]


class EnvSpec(SpecBase):
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
        instructions: Text of the user's message before the first observation; ``None`` for the environment's name and
            description, unless a dataset's prompt is there.
        max_turns: Tool calls after which an episode takes no more; by default only the environment ends it.
        sessions: Sessions that a server which is started here may hold at once: one for each rollout at a time. By
            default 1024 where the environment allows many.
        gives_reward: Whether the environments give TRL their reward by ``get_reward``, which it counts beside any
            reward function; ``reward_funcs`` is then empty.
        reward_components: Components of the environment's reward to train on, with a weight for each; ``reward_funcs``
            then has a function for each, and ``reward_weights`` the weights. By default the reward is one function.
        client_options: Passed to the client, such as ``message_timeout_s`` and ``token``.
        reset: Passed to every ``reset``, beside the task, such as ``{"difficulty": "hard"}``.
        illegal_answers: Effect of an illegal call. ``end``: it ends its episode. ``fallback`` and ``penalty``: it is
            not played, and the model may answer again. Where actions are texts, see `RolloutFunction`.
        illegal_penalty: Subtracted from what the model learns from, for each illegal action.
        sampler: Chooses the task of each group of episodes that ``rollout_func`` plays in training, and learns from
            their rewards; a row of ``tasks`` then only stands for a group. The trainer's checkpoints have its state. By
            default each row is played.
        warns_of_hidden_text: Whether to log a warning where the text of first observations is only in their metadata,
            which no model is shown.
        **unknown: Nothing; an option that does not exist is an error that names the nearest.

    Attributes:
        name: Short name of the environment.
        max_turns: Tool calls after which an episode takes no more; ``None`` for no limit.

    Raises:
        ConfigurationError: ``max_turns`` or ``sessions`` is below 1, ``reward_components`` has a weight that is no
            finite number or stands beside ``gives_reward``, or there is no such option or ``illegal_answers``.

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
        instructions: str | None = None,
        max_turns: int | None = None,
        sessions: int | None = None,
        gives_reward: bool = False,
        reward_components: Mapping[str, float] | None = None,
        client_options: Mapping[str, Any] | None = None,
        reset: Mapping[str, Any] | None = None,
        illegal_answers: IllegalAnswers = "fallback",
        illegal_penalty: float = 0.0,
        sampler: TaskSampler | None = None,
        warns_of_hidden_text: bool = True,
        **unknown: Never,
    ) -> None:
        _check_known(unknown)
        check_number("max_turns", max_turns)
        check_number("sessions", sessions)
        _check_components(reward_components, gives_reward=gives_reward)
        if not isinstance(target, Sessions):
            target = Target.of(target).required(MADE, "EnvSpec")
        spec_tasks = SpecTasks(
            target=target,
            tasks=tasks,
            num_tasks=num_tasks,
            seed=seed,
            system_prompt=system_prompt,
            instructions=instructions,
            max_turns=max_turns,
            session_count=sessions,
            client_options=dict(client_options or {}),
            reset=dict(reset or {}),
            sampler=sampler,
            warns_of_hidden_text=warns_of_hidden_text,
            rule=AnswerRule(illegal_answers, illegal_penalty),
        )
        super().__init__({"": spec_tasks})
        self.name = spec_tasks.name
        self.max_turns = max_turns
        self._spec_tasks = spec_tasks
        self._gives_reward = gives_reward
        self._components = dict(reward_components or {})

    @cached_property
    def train_dataset(self) -> "Dataset":
        """A row for each task: the ``prompt``, and what ``reset`` takes, for reward functions to see.

        The prompt is a conversation whose last message knows which task it is, under the key ``task``.
        """
        prompts = [numbered(self._spec_tasks.prompt(index), index) for index in range(len(self.rows))]
        return dataset_of(prompts, self.rows)

    @property
    def environment_factory(self) -> Callable[[], Any]:
        """Makes a ``ToolEnvironment`` for one rollout at a time, whose methods are the tools.

        Raises:
            ConfigurationError: There is a ``sampler``, and TRL's own loop plays the rows of its dataset.
        """
        if self._spec_tasks.sampler is not None:
            raise ConfigurationError(
                "Expected no sampler beside environment_factory, with which TRL plays the rows of its dataset. Use "
                "rollout_func, or leave out the sampler."
            )
        return self._make_environment

    @cached_property
    def rollout_func(self) -> "RolloutFunction":
        """Plays a batch of episodes, all environments stepped at once.

        See `RolloutFunction`, which can also be made by hand, with settings of how the model acts.
        """
        from openenv.train.trl.rollout_function import RolloutFunction  # it imports what generation needs

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

    @property
    def client(self) -> SyncEnvClient[Any, Any, Any]:
        """The client that all sessions are made of; it starts the server on its first use."""
        return self._spec_tasks.sessions.client

    @property
    def tools(self) -> EnvironmentTools:
        """The environment's tools; the first use starts the server."""
        return self._spec_tasks.tools

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Parameters of ``reset`` for each task, in the dataset's order."""
        return self._spec_tasks.rows

    def task_of(self, prompt: Sequence[Mapping[str, Any]] | str) -> dict[str, Any]:
        """Find what ``reset`` is passed for a prompt of the dataset.

        Args:
            prompt: The prompt.

        Raises:
            ConfigurationError: It is no prompt of this spec's dataset.
        """
        return self._spec_tasks.task_of(prompt)

    def __repr__(self) -> str:
        """Name the environment."""
        return self._spec_tasks.label

    def _rewards_of(self, environment: str | None) -> list[Any]:
        """Return the reward functions, for an environment of the given name among several."""
        if self._gives_reward:
            return []
        whole = EnvironmentReward(environment, self._spec_tasks.answers)
        if not self._components:
            return [whole]
        # The first of them logs how the episodes went.
        return [
            ComponentReward(name, environment, whole if number == 0 else None)
            for number, name in enumerate(self._components)
        ]

    @cached_property
    def _environment_class(self) -> type[ToolEnvironment]:
        return tool_environment_class(self.name, self.tools, gives_reward=self._gives_reward)

    def _make_environment(self) -> ToolEnvironment:
        return self._environment_class(self._spec_tasks)


class EnvSpecs(SpecBase):
    """Several environments in one run.

    Args:
        specs: The environments by the names that the dataset's column ``environment`` has for them.
        order: The name of each row's environment, in the dataset's order; by default they are interleaved evenly.

    Attributes:
        specs: The environments by these names.

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
        super().__init__({name: spec._spec_tasks for name, spec in specs.items()})
        self.specs = dict(specs)
        self._order = order

    @cached_property
    def train_dataset(self) -> "Dataset":
        """The tasks of all of them, interleaved, with the column ``environment``."""
        counts = {name: len(spec.rows) for name, spec in self.specs.items()}
        names = list(islice(interleaved(counts), sum(counts.values())) if self._order is None else self._order)
        left = {name: iter(range(count)) for name, count in counts.items()}
        try:
            numbers = [(name, next(left[name])) for name in names]
        except (KeyError, StopIteration) as error:
            raise ConfigurationError(
                f"Expected the order of the rows of {', '.join(self.specs)}, got {names!r:.200}."
            ) from error
        prompts = [numbered(self._spec_tasks_by_name[name].prompt(index), index, name) for name, index in numbers]
        return dataset_of(prompts, [self.specs[name].rows[index] for name, index in numbers], environment=names)

    @cached_property
    def rollout_func(self) -> "RolloutFunction":
        """Plays a batch of episodes, each environment its own, with all of its sessions stepped at once.

        See `RolloutFunction`, which can also be made by hand.
        """
        from openenv.train.trl.rollout_function import RolloutFunction  # it imports what generation needs

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


def _check_components(components: Mapping[str, float] | None, *, gives_reward: bool) -> None:
    if components and gives_reward:
        raise ConfigurationError("Expected reward_components or gives_reward, got both: TRL would count rewards twice.")
    for name, weight in (components or {}).items():
        if not math.isfinite(weight):
            raise ConfigurationError(f"Expected a finite number as the weight of {name!r}, got {weight!r}.")
