"""Episodes that checks play over an environment's server, and play again from their record.

A trial is played with one kind of action first, or one tool, and at random from then on; or by the package's scripted
player. The observations are compared when the same actions are sent once more, to another session or process.
"""

import re
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from openenv.adapters.text import ActionText, observation_fields
from openenv.auto.package import Player
from openenv.core.client.blocking import Attempt
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    OpenEnvError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerExecutionError,
)
from openenv.core.sync_client import SyncEnvClient
from openenv.train.agents.players import RandomPlayer, RandomToolPlayer
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.validation.findings import shown

SEED, OTHER_SEED = 1, 2
SCRIPTED = "the scripted player"
SCRIPTED_STEPS, RANDOM_STEPS, FEW_STEPS, REPLAYED_STEPS = 2000, 200, 20, 50
# Types of exceptions by which an environment refuses an action that fits its schema.
REFUSING = ("ValueError", "Illegal", "Invalid")
_DURATION = re.compile(r"(time|duration|elapsed|latency)(_(ns|us|ms|s|sec|seconds))?$")
_OURS, _STANDARD = str(Path(__file__).parents[1]), sysconfig.get_path("stdlib")

Client = SyncEnvClient[Any, Any, Any]
Answer = dict[str, Any]
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class RunLimits:
    """Limits of a run of an environment.

    Attributes:
        answer_s: Seconds until an answer to one request.
        play_s: Seconds for all trials with one process, and for the episodes of a player whose rewards are compared.
        check_s: Seconds for one check, after which its process is killed, as it can't be interrupted otherwise.
        tasks: Tasks on which players are compared; where these do not suffice for a difference, up to eight times more.
        learning_steps: Optimiser steps of a training of the tiny policy; 0 for no training.
        learning_seeds: Trainings, each with a seed of its own.
        learning_s: Seconds for all trainings.
        endurance_s: Seconds of CPU for the episodes of ``runtime.endurance``.
        until: Reading of ``time.monotonic`` after which no further check is made; ``None`` for no such limit.
    """

    answer_s: float = 60.0
    play_s: float = 30.0
    check_s: float = 600.0
    tasks: int = 32
    learning_steps: int = 300
    learning_seeds: int = 5
    learning_s: float = 540.0
    endurance_s: float = 0.6
    until: float | None = None


@dataclass
class Trial:
    """Episode that was played.

    Attributes:
        name: Name of its player.
        actions: The first actions, as JSON values; those that a replay sends.
        answers: Answers to the reset and to these actions, as an agent sees them.
        steps: Number of actions that were sent in all.
        refusals: Messages of the environment about those that it refused.
        fault: Fault that ended it too early; ``None`` without one.
        untried: Reason why no action could be chosen; ``None`` where one could.
        has_ended: Whether the environment ended the episode.
        is_out_of_time: Whether its share of the time ended it.
        seed: Seed of its reset.
    """

    name: str
    actions: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    steps: int = 0
    refusals: list[str] = field(default_factory=list)
    fault: str | None = None
    untried: str | None = None
    has_ended: bool = False
    is_out_of_time: bool = False
    seed: int = SEED

    @property
    def is_refused(self) -> bool:
        """Return whether the environment refused every action."""
        return self.steps > 0 and len(self.refusals) == self.steps

    def add(self, action: dict[str, Any], answer: Answer) -> None:
        """Add an action that was sent and its answer."""
        self.steps += 1
        if self.steps <= REPLAYED_STEPS:  # of screens, all of them would fill the memory
            self.actions.append(action)
            self.answers.append(answer)


class FaultError(Exception):
    """A fault of the environment that ends a trial; it stays in this package."""


class Trials:
    """Trials with one server."""

    def __init__(self, client: Client, limits: RunLimits) -> None:
        self._client = client
        self._limits = limits
        self._deadline = time.monotonic() + limits.play_s

    @property
    def is_out_of_time(self) -> bool:
        """Return whether no time is left for a further trial."""
        return time.monotonic() > self._deadline

    def kinds(self) -> EnvironmentTools:
        """Return the kinds of actions and the tools of a first observation."""
        self._client.disconnect()
        return EnvironmentTools.of(self._client, {"seed": SEED})

    def play_kinds(self, kinds: EnvironmentTools, max_steps: int) -> Iterator[Trial]:
        """Play a trial with each kind of action and each tool; each has a share of the time, and at least a step."""
        for number, name in enumerate(kinds.names):
            left_s = self._deadline - time.monotonic()
            if left_s > 0:
                share_s = left_s / (len(kinds.names) - number)
                yield self.play(f"the action {name}", _FirstOfKind(kinds, name, number), max_steps, share_s=share_s)

    def play(
        self, name: str, player: Player, max_steps: int, client: Client | None = None, share_s: float | None = None
    ) -> Trial:
        """Play a trial in a new session.

        Args:
            name: Name of its player.
            player: Chooses the actions; a call is bounded like an answer.
            max_steps: Steps after which it is left.
            client: A client to play with, other than the one that speaks dicts.
            share_s: Seconds after which it is left, once a step was done; by default half of those for all trials.
        """
        until = time.monotonic() + (self._limits.play_s / 2 if share_s is None else share_s)
        trial = Trial(name)
        client = client or self._client
        try:
            self._client.disconnect()
            client.disconnect()
            observation = self._reset(client, trial)
            while not trial.has_ended and trial.steps < max_steps:
                trial.is_out_of_time = trial.steps > 0 and time.monotonic() > until
                if trial.is_out_of_time:
                    break
                observation = self._step(client, trial, self._choice(trial, player, observation), observation)
            self._state(client, trial)
        except _UntriedError as error:
            trial.untried = str(error)
        except FaultError as fault:
            trial.fault = str(fault)
        return trial

    def replay(
        self, trial: Trial, *, is_same_session: bool = False, neighbour: Client | None = None, seed: int = SEED
    ) -> list[Answer]:
        """Send the first actions of a trial once more.

        Args:
            trial: The trial.
            is_same_session: Whether no session is opened, but that of the last trial reset.
            neighbour: Another session, which does the same under another seed, each time a step ahead.
            seed: Seed of the reset.
        """
        again = Trial(trial.name, seed=seed)
        try:
            if not is_same_session:
                self._client.disconnect()
            self._reset(self._client, again)
            _disturb(neighbour, None)
            for action in trial.actions:
                _disturb(neighbour, action)
                self._step(self._client, again, action, None)
        except FaultError as fault:
            again.answers.append({"fault": str(fault)})
        return again.answers

    def _reset(self, client: Client, trial: Trial) -> Any:
        result = self._answer(trial, "reset", client.reset, seed=trial.seed)
        trial.answers.append(_seen(result))
        trial.has_ended = bool(result.done)
        self._state(client, trial)
        return result.observation

    def _step(self, client: Client, trial: Trial, action: Any, before: Any) -> Any:
        """Send an action, and return the observation: the one before if the action was refused."""
        fields = action_fields(action)
        try:
            result = self._answer(trial, f"step {trial.steps + 1} with {shown(fields)}", client.step, action)
        except _RefusedError as error:
            if trial.name == SCRIPTED:
                raise
            trial.add(fields, {"refused": str(error)})
            trial.refusals.append(str(error))
            return before
        trial.add(fields, _seen(result))
        trial.has_ended = bool(result.done)
        return result.observation

    def _state(self, client: Client, trial: Trial) -> None:
        self._answer(trial, f"state after {trial.steps} steps", client.state)

    def _choice(self, trial: Trial, player: Player, observation: Any) -> Any:
        before = f"before step {trial.steps + 1} it"
        try:
            action: Any = within(self._limits.answer_s, player, observation)
        except TimeoutError as error:
            raise FaultError(f"{before} chose nothing within {self._limits.answer_s:g} s") from error
        except ConfigurationError as error:
            if trial.name == SCRIPTED:
                raise FaultError(f"{before} raised {where(error)}") from error
            raise _UntriedError(str(error)) from error
        except (OpenEnvError, FaultError) as error:
            raise FaultError(f"{before} raised {where(error)}") from error
        if trial.name == SCRIPTED and not isinstance(action, BaseModel):
            came = f"{type(action).__name__}, {shown(action)}"
            raise FaultError(f"{before} returned a {came}; expected an action, as in MyAction(...){_defined(player)}")
        return action

    def _answer(self, trial: Trial, what: str, call: Callable[..., ResultT], *given: Any, **named: Any) -> ResultT:
        try:
            return within(2 * self._limits.answer_s, call, *given, **named)
        except RequestRejectedError as error:
            raise _RefusedError(f"{what} was refused: {error}") from error
        except ServerExecutionError as error:
            if what.startswith("step") and error.message.startswith(REFUSING):
                raise _RefusedError(f"{what}: {error.message}") from error
            raise FaultError(f"{what}: {error.message}") from error
        except ResponseTimeoutError as error:
            raise FaultError(f"{what} had no answer within {self._limits.answer_s:g} s") from error
        except (OpenEnvError, FaultError, TimeoutError) as error:
            raise FaultError(f"{what}: {where(error)}") from error


class _RefusedError(FaultError):
    """The environment refuses an action; the episode continues."""


class _UntriedError(FaultError):
    """No random action fits the schema."""


def within(seconds: float, function: Callable[..., ResultT], *arguments: Any, **named: Any) -> ResultT:
    """Call a function of an environment's author, and wait for it so long and no longer.

    Raises:
        TimeoutError: It has not returned; it is left to itself.
        OpenEnvError: It raised that.
        FaultError: It raised something else.
    """
    attempt = Attempt(function, *arguments, **named)
    attempt.join(seconds)
    if attempt.is_alive():
        raise TimeoutError(f"it did not return within {seconds:g} s")
    if isinstance(attempt.error, OpenEnvError):
        raise attempt.error
    if attempt.error is not None:
        raise FaultError(where(attempt.error)) from attempt.error
    return cast("ResultT", attempt.result)


def first_difference(first: list[Answer], second: list[Answer]) -> str | None:
    """Name the first field in which two trials with the same actions differ; ``None`` where they do not.

    Example:
        >>> left, right = {"observation": {"board": [0, 1]}}, {"observation": {"board": [0, 2]}}
        >>> first_difference([left], [right])
        'observation.board.1 of the reset: 1 and 2'
    """
    for step, (left, right) in enumerate(zip(first, second, strict=False)):
        found = next(differences(left, right), None)
        if found is not None:
            path, values = found
            return f"{path} of {f'step {step}' if step else 'the reset'}: {values}"
    return None


def differences(left: Any, right: Any) -> Iterator[tuple[str, str]]:
    """Iterate over the paths at which two answers differ, and both values. Durations that were measured may differ."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.keys() == right.keys() and list(left) != list(right):
            yield "", f"keys in the order {shown(list(left))} and {shown(list(right))}"
            return
        keys: list[Any] = [*left, *(key for key in right if key not in left)]
        pairs = [(key, left.get(key), right.get(key)) for key in keys]
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = [(number, *values) for number, values in enumerate(zip(left, right, strict=True))]
    else:
        if type(left) is not type(right) or left != right:  # 1, 1.0 and true are other bytes
            yield "", f"{shown(left)} and {shown(right)}"
        return
    for key, *values in pairs:
        if not (_DURATION.search(str(key)) and all(isinstance(each, float) for each in values)):
            for path, both in differences(*values):
                yield f"{key}.{path}".rstrip("."), both


def where(error: BaseException) -> str:
    """Return an exception's type and message, and the line of an author's file that raised it."""
    if isinstance(error, FaultError):  # which has it already
        return str(error)
    message = str(error) if isinstance(error, OpenEnvError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    return f"{message} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else message


def _defined(player: Player) -> str:
    """Return the location of a player, as far as it is a function or has a method of Python."""
    function = player if isinstance(player, FunctionType) else type(player).__call__
    code = function.__code__ if isinstance(function, FunctionType) else None
    return "" if code is None else f" ({code.co_filename}, line {code.co_firstlineno})"


def _is_library(file: str) -> bool:
    return file.startswith((f"{_OURS}/", "<", _STANDARD)) or "site-packages" in file


def action_fields(action: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    """Return an action as JSON values, without empty metadata."""
    fields = action.model_dump(mode="json", by_alias=True) if isinstance(action, BaseModel) else action
    return {name: value for name, value in fields.items() if name != "metadata" or value}


def _seen(result: StepResult[Any]) -> Answer:
    """Return the part of a result that an agent sees."""
    return {"observation": observation_fields(result.observation), "reward": result.reward, "done": result.done}


def _disturb(neighbour: Client | None, action: dict[str, Any] | None) -> None:
    """Reset another session, or send it an action, with any result."""
    if neighbour is None:
        return
    with suppress(OpenEnvError):
        if action is None:
            neighbour.reset(seed=OTHER_SEED)
        else:
            neighbour.step(action)


class _FirstOfKind:
    """Player that begins with one kind of action, and continues at random."""

    def __init__(self, tools: EnvironmentTools, name: str, number: int) -> None:
        schema = tools.tools[tools.names.index(name)].input_schema
        self._tools, self._name = tools, name
        self._arguments = RandomPlayer(ActionText(schema), seed=number)
        self._anything = RandomToolPlayer(tools, seed=number)
        self._is_first = True

    def __call__(self, observation: Any) -> Any:
        if not self._is_first:
            return self._anything(observation)
        self._is_first = False
        chosen = self._arguments(observation)
        return self._tools.action(self._name, chosen if isinstance(chosen, dict) else chosen.model_dump())
