"""The tasks of an environment, with the sessions and tools in which they are played, and the prompts before them."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import chain
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from openenv.adapters.text import hidden_text_warning
from openenv.auto.discovery import find_environment, located, short_name
from openenv.auto.making import make
from openenv.auto.target import Target, TargetKind
from openenv.core.client.tools import task_columns
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import check_reset_parameters, without_labels, without_unknown
from openenv.core.sync_client import SyncEnvClient
from openenv.core.tasks.task_set import is_dataset
from openenv.records.answers import CALL_REMEDIES, AnswerCounts, AnswerRule
from openenv.train.forms.form import prompt_messages
from openenv.train.rollout.sessions import CAPACITY_WAIT_S, Sessions, package_of
from openenv.train.samplers import TaskSampler
from openenv.train.tasks.task_dataset import (
    Prompt,
    foreign_prompt,
    messages_of_row,
    task_number,
)
from openenv.train.tasks.task_rows import task_rows
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.tools.goals import goal_text

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

__all__ = ["SpecBase", "SpecTasks"]

logger = logging.getLogger(__name__)

DEFAULT_SESSIONS = 1024
ANSWER_BATCHES = 10


@dataclass(eq=False, kw_only=True, repr=False)
class SpecTasks:
    """Tasks of one environment, and what they are played with; the fields are the options of `EnvSpec`."""

    # Nothing is started before it is needed, and everything may be requested from several threads.
    target: Target | Sessions
    tasks: "int | str | Iterable[Mapping[str, Any]] | Dataset | None" = None
    num_tasks: int | None = None
    seed: int = 0
    system_prompt: str | None = None
    instructions: str | None = None
    max_turns: int | None = None
    session_count: int | None = None
    client_options: Mapping[str, Any] = field(default_factory=dict)
    reset: Mapping[str, Any] = field(default_factory=dict)
    sampler: TaskSampler | None = None
    warns_of_hidden_text: bool = True
    rule: AnswerRule = field(default_factory=lambda: AnswerRule(illegal_penalty=0.0))

    def __post_init__(self) -> None:
        """Name the environment."""
        self.name = self.target.name if isinstance(self.target, Sessions) else short_name(self.target)
        # Counts of the answers in each episode of the last batches that a reward function has scored, as a line of a
        # collection has them; a model may learn to answer legally.
        self.answers: deque[list[dict[str, Any]]] = deque(maxlen=ANSWER_BATCHES)
        self._lock = RLock()
        self._is_closed = False
        self._has_warned = not self.warns_of_hidden_text
        # Set on first use.
        self._sessions: Sessions | None = None
        self._tools: EnvironmentTools | None = None
        self._rows: list[dict[str, Any]] | None = None

    @property
    def label(self) -> str:
        """Name of the environment's `EnvSpec` in messages."""
        return f"EnvSpec({self.name if isinstance(self.target, Sessions) else str(self.target)!r})"

    @property
    def sessions(self) -> Sessions:
        """The sessions with the server, which are opened on the first use."""
        with self._lock:
            if self._is_closed:
                raise ConfigurationError(f"The EnvSpec of {self.name} was closed; make a new one.")
            if self._sessions is None:
                self._sessions = self._open()
            return self._sessions

    @property
    def tools(self) -> EnvironmentTools:
        """The environment's tools; the first use starts the server."""
        with self._lock:
            if self._tools is None:
                sessions = self.sessions
                self._tools = sessions.tools or sessions.ask_tools(self.parameters_of(self._task(0)))
            return self._tools

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Parameters of ``reset`` for each task, in the dataset's order, without those of all tasks."""
        with self._lock:
            if self._rows is None:
                client = self.sessions.client if isinstance(self.tasks, str) else None
                rows = task_rows(client, self.tasks, num_tasks=self.num_tasks, seed=self.seed)
                self._rows = list(map(task_columns, rows)) if is_dataset(self.tasks) else rows
            return self._rows

    def prompt(self, index: int) -> Prompt:
        """Return the prompt of a task, to whose last message the first observation is added."""
        tasks: Any = self.tasks
        return self._prompt_with(tasks[index].get("prompt") if is_dataset(tasks) else None)

    def drawn(self, task: Mapping[str, Any]) -> tuple[dict[str, Any], Prompt]:
        """Return what ``reset`` is passed for a task that the sampler has drawn, and its prompt."""
        if is_dataset(self.tasks):
            return {**self.reset, **task_columns(task)}, self._prompt_with(task.get("prompt"))
        return {**self.reset, **task}, self._prompt_with(None)

    def task_of(self, prompt: Sequence[Mapping[str, Any]] | str) -> dict[str, Any]:
        """Return what ``reset`` is passed for a prompt of the dataset; refuse any other prompt."""
        index = task_number(prompt)
        if index is None or not 0 <= index < len(self.rows):
            raise foreign_prompt(prompt, f"this EnvSpec ({self.name})", "names the task, under the key 'task'")
        return self._task(index)

    def task_of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``reset`` is passed for a row of a dataset, of this one or of another."""
        prompt = row.get("prompt")
        if prompt is not None and task_number(prompt) is not None:
            return self.task_of(prompt)
        return {**self.reset, **task_columns(row)}

    def parameters_of(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of a task ``reset`` takes: a row may have further columns, for reward functions."""
        with self._lock:
            return without_unknown(self._reset_schema, task)

    def warn_of_hidden_text(self, observation: Any) -> None:
        """Log a warning, once, if the text of a first observation is only in its metadata, which no model is shown."""
        warning = None if self._has_warned else hidden_text_warning(observation)
        self._has_warned = True
        if warning is not None:
            logger.warning("%s: %s", self.name, warning)

    def close(self) -> None:
        """End all sessions, and the server if it was started here, and log what is doubtful. May be called twice."""
        with self._lock:
            self._is_closed = True
            sessions = self._sessions
        if sessions is not None:
            sessions.close()
        for _, text in AnswerCounts.of_lines(chain.from_iterable(self.answers)).warnings(self.rule, CALL_REMEDIES):
            logger.warning("%s: %s", self.name, text)
        self.answers.clear()

    def _prompt_with(self, own: Any) -> Prompt:
        if own is not None:
            return prompt_messages(self.instructions or "", self.system_prompt, messages_of_row(own))
        return prompt_messages(self._goal if self.instructions is None else self.instructions, self.system_prompt)

    def _task(self, index: int) -> dict[str, Any]:
        return {**self.reset, **self.rows[index]}

    def _open(self) -> Sessions:
        if isinstance(self.target, Sessions):
            return self.target
        target = located(self.target)
        options = {"capacity_wait_s": CAPACITY_WAIT_S, **self.client_options}
        if target.kind is not TargetKind.ADDRESS:
            options["max_sessions"] = self.session_count or _most_sessions(target)
        client: SyncEnvClient[Any, Any, Any] = make(target, **options).sync()
        return Sessions(self.name, client)

    @cached_property
    def _goal(self) -> str:
        """Goal of the environment; a server is started or reached only where there is no package that has it."""
        package = None if isinstance(self.target, Sessions) else package_of(self.target)
        return self.sessions.goal if package is None else goal_text(package.name, package.description)

    @cached_property
    def _reset_schema(self) -> Mapping[str, Any] | None:
        """Schema of what ``reset`` takes, against which the options' own parameters have been checked."""
        schema = self.sessions.reset_schema
        check_reset_parameters(schema, self.reset, self.label)
        if isinstance(self.tasks, Sequence) and not isinstance(self.tasks, str):
            for row in self.rows:
                check_reset_parameters(schema, without_labels(schema, row), f"{self.label[:-1]}, tasks=...)")
        return schema


class SpecBase:
    """Base of `EnvSpec` and `EnvSpecs`: tasks by the names of their environments, which are closed together."""

    def __init__(self, spec_tasks_by_name: Mapping[str, SpecTasks]) -> None:
        # For what plays them. The name of a single one, which prompts do not have, is empty.
        self._spec_tasks_by_name = spec_tasks_by_name

    def close(self) -> None:
        """End all sessions, and the servers that were started here. May be called twice."""
        for spec_tasks in self._spec_tasks_by_name.values():
            spec_tasks.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


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
