"""The SQL environment: episodes over tasks, with a budget of queries."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import (
    ConfigurationError,
    IllegalActionError,
    ResetNeededError,
)
from openenv.core.tasks import TaskListing, TaskRef

from ..models import (
    MAX_ANSWER_ROWS,
    MAX_QUERIES,
    Answer,
    Database,
    Difficulty,
    QueryAction,
    SchemaAction,
    SqlAction,
    SqlObservation,
    SqlState,
    SubmitAction,
    SubmitQueryAction,
)
from .answers import Rows, is_right, rows_of
from .rewards import sql_reward
from .tables import table_text, tables_text
from .tasks import GeneratedSqlTasks, SqlTask, SqlTaskFile
from .workers import QueryFailedError, Table, shared_workers

SHOWN_ROWS = 50
_MAX_QUERIES = 1_000
_SAMPLE_ROWS = 3
_SCHEMA = (
    "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
)
_COLUMNS = (
    "SELECT made.name, info.name FROM sqlite_master AS made, pragma_table_info(made.name) AS info "
    "WHERE made.type IN ('table', 'view') AND made.name NOT LIKE 'sqlite_%' ORDER BY made.name, info.cid"
)


class SqlEnvironment(TaskListing, Environment[SqlAction, SqlObservation, SqlState]):
    """Answer a question about a SQLite database. The reward is 1.0 for the right answer, 0.0 for any other.

    Look at the tables, query them, and hand in the answer, which ends the episode. Statements may only read.

    Args:
        tasks: A file of tasks, see ``SqlTaskFile``; by default the one that ``SQL_TASKS`` names, else they are made by
            chance.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 64
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self, tasks: str | Path | None = None) -> None:
        super().__init__(rubric=sql_reward())
        self._tasks = task_source(tasks or os.environ.get("SQL_TASKS"))
        self._task: SqlTask | None = None
        self._expected: Rows = []
        self._tables: dict[str, list[str]] = {}
        self._state = SqlState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        database: Database | None = None,
        difficulty: Difficulty | None = None,
        max_queries: Annotated[int, Field(ge=1, le=_MAX_QUERIES)] = MAX_QUERIES,
    ) -> SqlObservation:
        """Make a database and give a question about it.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            split: ``train``, which is the default, ``validation`` or ``test``; those of the file where there is one.
            index: The task's index in its split.
            database: ``flights``, ``library`` or ``shop``; left to the task where it is ``None``.
            difficulty: ``easy``, ``medium`` or ``hard``; left to the task where it is ``None``.
            max_queries: Queries that may be run.

        Returns:
            The question, and the tables.

        Raises:
            TaskNotFoundError: There is no such task. The running episode continues.
            InvalidRequestError: The tasks come from a file, which says itself what they are about.
        """
        place = self._tasks.choose_task(split, index, seed)
        task = self._tasks.make(place, database, difficulty)
        self._tables, self._expected = _columns_of(task), _answer_to(task, place)
        self._task = task
        self._state = SqlState(
            episode_id=episode_id or str(uuid4()),
            split=place.split,
            index=place.index,
            database=task.database,
            difficulty=task.difficulty,
            question=task.question,
            queries_left=max_queries,
        )
        return self._opening(task)

    def step(self, action: QueryAction | SchemaAction | SubmitAction | SubmitQueryAction) -> SqlObservation:
        """Look at the tables, run a query, or hand in the answer.

        Args:
            action: Which of these.

        Returns:
            What it gave. A query that fails, or would take too much, gives ``error``, and counts as a query.

        Raises:
            IllegalActionError: The statement would do more than read, or no query is left. It is not counted.
            ResetNeededError: There is no episode, or it is over.
        """
        task = self._task
        if task is None:
            raise ResetNeededError("There is no running episode; call reset first.")
        if isinstance(action, QueryAction):
            observation = self._query(task, action.sql)
        elif isinstance(action, SchemaAction):
            observation = self._describe(task, action.table)
        elif isinstance(action, SubmitAction):
            observation = self._judge(rows_of(action.answer, self._expected), action.answer)
        else:
            observation = self._judge_query(task, action.sql)
        if observation.done:
            observation.reward = self._apply_rubric(action, observation)
        self._state.step_count += 1
        return observation

    @property
    def state(self) -> SqlState:
        """Task that is played, and state of the queries."""
        return self._state

    @property
    def task_counts(self) -> Mapping[str, int | None]:
        """Number of tasks of each split."""
        return self._tasks.task_counts

    def _query(self, task: SqlTask, sql: str) -> SqlObservation:
        if self._state.queries_left == 0:
            raise IllegalActionError("Expected an answer, got a query: none is left. Submit the answer.")
        try:
            table = shared_workers().query(task.data, sql, SHOWN_ROWS)
        except QueryFailedError as error:
            self._state.queries_left -= 1
            return self._observation(f"The query failed: {error}\n{self._left()}", error=str(error))
        self._state.queries_left -= 1
        return self._result(table, f"{table_text(table)}\n{self._left()}")

    def _describe(self, task: SqlTask, table: str | None) -> SqlObservation:
        if table is not None and table not in self._tables:
            raise IllegalActionError(f"Expected one of the tables {', '.join(self._tables)}; got {table!r}.")
        made = shared_workers().query(task.data, _SCHEMA, MAX_ANSWER_ROWS)
        text = "\n".join(f"{sql};" for name, sql in made.rows if table in (None, name))
        if table is None:
            return self._observation(text)
        quoted = table.replace('"', '""')
        sample = shared_workers().query(task.data, f'SELECT * FROM "{quoted}"', _SAMPLE_ROWS)  # noqa: S608  # guarded
        return self._result(sample, f"{text}\n{table_text(sample)}")

    def _judge_query(self, task: SqlTask, sql: str) -> SqlObservation:
        try:
            table = shared_workers().query(task.data, sql, MAX_ANSWER_ROWS)
        except QueryFailedError as error:
            return self._judge(None, sql, str(error))
        if table.truncated:
            return self._judge(None, sql, "Its result is longer than an answer may be.")
        return self._judge(table.rows, sql)

    def _judge(self, given: Rows | None, answer: Answer, error: str | None = None) -> SqlObservation:
        assert self._task is not None
        correct = given is not None and is_right(given, self._expected, self._task.ordered)
        self._state.answer = answer
        failed = "" if error is None else f" The query failed: {error}"
        observation = self._observation(f"The answer is {'right' if correct else 'wrong'}.{failed}", error=error)
        self._task = None
        metadata = {"expected": [list(row) for row in self._expected]}
        return observation.model_copy(update={"correct": correct, "done": True, "metadata": metadata})

    def _opening(self, task: SqlTask) -> SqlObservation:
        text = f"The SQLite database {task.database} has these tables:\n{tables_text(self._tables)}\n\n{task.question}"
        return self._observation(f"{text}\n{self._left()}")

    def _left(self) -> str:
        left = self._state.queries_left
        return "No queries left: submit the answer." if left == 0 else f"Queries left: {left}."

    def _result(self, table: Table, text: str) -> SqlObservation:
        shown = {"columns": table.columns, "rows": table.rows, "truncated": table.truncated}
        return self._observation(text).model_copy(update=shown)

    def _observation(self, text: str, error: str | None = None) -> SqlObservation:
        return SqlObservation(
            question=self._state.question or "",
            tables=self._tables,
            error=error,
            queries_left=self._state.queries_left,
            text=text,
        )


@cache
def task_source(path: str | Path | None) -> SqlTaskFile | GeneratedSqlTasks:
    """Return the tasks of a file, read once; or, without one, those that are made by chance."""
    return SqlTaskFile(Path(path)) if path else GeneratedSqlTasks()


def _columns_of(task: SqlTask) -> dict[str, list[str]]:
    table = _trusted(task, _COLUMNS, "its tables")
    columns: dict[str, list[str]] = {}
    for name, column in table.rows:
        columns.setdefault(str(name), []).append(str(column))
    return columns


def _answer_to(task: SqlTask, place: TaskRef) -> Rows:
    table = _trusted(task, task.reference, f"the reference of task {place.index} in {place.split}")
    if table.truncated:
        raise ConfigurationError(
            f"Expected an answer of at most {MAX_ANSWER_ROWS} rows to task {place.index} in {place.split}, got more."
        )
    return table.rows


def _trusted(task: SqlTask, sql: str, what: str) -> Table:
    """Run a query of the task itself, which has to succeed."""
    try:
        return shared_workers().query(task.data, sql, MAX_ANSWER_ROWS)
    except (QueryFailedError, IllegalActionError) as error:
        raise ConfigurationError(f"The database {task.database} can't be asked for {what}: {error}") from error
