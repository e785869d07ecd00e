"""Actions and observations of the SQL environment."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Database = Literal["flights", "library", "shop"]
Difficulty = Literal["easy", "medium", "hard"]
DATABASES: tuple[Database, ...] = get_args(Database)
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
MAX_SQL = 10_000
MAX_QUERIES = 10
MAX_ANSWER_ROWS = 1_000

Value = str | int | float | None
Answer = (
    Annotated[str, Field(max_length=100_000)]
    | int
    | float
    | Annotated[list[Value | Annotated[list[Value], Field(max_length=100)]], Field(max_length=MAX_ANSWER_ROWS)]
)
Sql = Annotated[
    str,
    Field(
        min_length=1, max_length=MAX_SQL, description="one statement for SQLite that reads, such as a SELECT or WITH"
    ),
]


class QueryAction(Action):
    """Run one SQL statement that reads the database, and see its result."""

    type: Literal["query"] = "query"
    sql: Sql


class SchemaAction(Action):
    """See how a table was made, and its first rows."""

    type: Literal["schema"] = "schema"
    table: str | None = Field(
        default=None, max_length=200, description="name of the table; without it, how all tables were made"
    )


class SubmitAction(Action):
    """Hand in the answer, which ends the episode."""

    type: Literal["submit"] = "submit"
    answer: Answer = Field(
        description="one value; or a list with a value for each row; or a list of lists, for rows of several columns"
    )


class SubmitQueryAction(Action):
    """Hand in the result of one SQL statement as the answer, which ends the episode."""

    type: Literal["submit_query"] = "submit_query"
    sql: Sql


SqlAction = Annotated[QueryAction | SchemaAction | SubmitAction | SubmitQueryAction, Field(discriminator="type")]
"""Any of the four."""


class SqlObservation(Observation):
    """The question, or what an action gave.

    Attributes:
        question: The question to answer.
        tables: The columns of each table.
        columns: Names of the columns of the last query's result.
        rows: Its rows: numbers, texts, null; a blob is a text such as ``X'00FF'``.
        truncated: Whether rows, or the ends of long texts, were left out.
        error: Why the last query gave nothing; ``None`` if it did.
        queries_left: Queries that may still be run.
        correct: Whether the answer is right; ``None`` before there is one.
        text: The same in words, for a language model.
    """

    question: str
    tables: dict[str, list[str]] = Field(default_factory=dict)
    columns: list[str] = Field(default_factory=list)
    rows: list[list[Value]] = Field(default_factory=list)
    truncated: bool = False
    error: str | None = None
    queries_left: int = Field(ge=0)
    correct: bool | None = None
    text: str = ""


class SqlState(State):
    """Which task is played, and where it stands. Neither the answer nor how it is found is in it.

    Attributes:
        split: The split that the task is of.
        index: The task's index in its split.
        database: Name of the database.
        difficulty: How hard the question is meant to be; ``None`` where nobody said.
        question: The question.
        queries_left: Queries that may still be run.
        answer: What was handed in.
    """

    split: str | None = None
    index: int | None = None
    database: str | None = None
    difficulty: str | None = None
    question: str | None = None
    queries_left: int = 0
    answer: Any = None
