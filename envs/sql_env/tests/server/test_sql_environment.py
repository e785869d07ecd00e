"""Episodes: questions, queries, answers."""

import copy
import json

import pytest

from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError, TaskNotFoundError
from sql_env import QueryAction, SchemaAction, SqlObservation, SubmitAction, SubmitQueryAction
from sql_env.player import query_for
from sql_env.server.sql_environment import SHOWN_ROWS, SqlEnvironment

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"


@pytest.fixture
def environment() -> SqlEnvironment:
    """A shop, with the question of how many customers live in a city."""
    environment = SqlEnvironment()
    for seed in range(100):
        if environment.reset(seed=seed, database="shop", difficulty="easy").question.startswith("How many customers"):
            return environment
    raise AssertionError("no seed asks for customers")


def right_query(environment: SqlEnvironment) -> str:
    sql = query_for(environment.state.question or "")
    assert sql is not None
    return sql


def test_a_reset_asks_a_question_and_lists_the_tables(environment: SqlEnvironment) -> None:
    observation = environment.reset(seed=3, database="shop")
    assert observation.tables["customers"] == ["id", "name", "city", "joined_on"]
    assert (observation.reward, observation.done, observation.correct) == (None, False, None)
    assert (observation.columns, observation.rows, observation.queries_left) == ([], [], 10)
    assert "customers(id, name, city, joined_on)" in observation.text
    assert observation.question in observation.text


def test_a_query_gives_a_table_and_the_right_answer_wins(environment: SqlEnvironment) -> None:
    shown = environment.step(QueryAction(sql=right_query(environment)))
    assert (shown.columns, shown.queries_left, shown.reward, shown.done) == (["COUNT(*)"], 9, None, False)
    assert shown.text.startswith("COUNT(*)\n--------\n")
    end = environment.step(SubmitAction(answer=list(shown.rows)))
    assert (end.reward, end.done, end.correct, end.text) == (1.0, True, True, "The answer is right.")
    assert end.metadata == {"expected": shown.rows}


def test_a_wrong_answer_ends_the_episode_too(environment: SqlEnvironment) -> None:
    end = environment.step(SubmitAction(answer=-1))
    assert (end.reward, type(end.reward), end.done, end.correct) == (0.0, float, True, False)
    assert environment.state.answer == -1


def test_the_result_of_a_query_may_be_the_answer(environment: SqlEnvironment) -> None:
    sql = right_query(environment)
    wrong, failing = copy.deepcopy(environment), copy.deepcopy(environment)
    assert environment.step(SubmitQueryAction(sql=sql)).reward == 1.0
    assert wrong.step(SubmitQueryAction(sql="SELECT -1")).reward == 0.0
    end = failing.step(SubmitQueryAction(sql="SELECT nowhere"))
    assert (end.reward, end.done, end.error) == (0.0, True, "no such column: nowhere")
    assert end.text == "The answer is wrong. The query failed: no such column: nowhere"


def test_a_query_that_would_write_is_no_answer_and_costs_nothing(environment: SqlEnvironment) -> None:
    before = environment.state.model_dump()
    for action in (
        QueryAction(sql="DELETE FROM customers"),
        SubmitQueryAction(sql="DELETE FROM customers"),
        QueryAction(sql="SELECT 1; SELECT 2"),
        SchemaAction(table="nowhere"),
        SchemaAction(table='customers"; DROP TABLE customers; --'),
    ):
        with pytest.raises(IllegalActionError, match="Expected one"):
            environment.step(action)
    assert environment.state.model_dump() == before
    assert environment.step(SubmitQueryAction(sql=right_query(environment))).reward == 1.0


def test_a_query_that_fails_counts_and_says_why(environment: SqlEnvironment) -> None:
    observation = environment.step(QueryAction(sql="SELECT * FROM nowhere"))
    assert (observation.error, observation.queries_left, observation.done) == ("no such table: nowhere", 9, False)
    assert observation.text == "The query failed: no such table: nowhere\nQueries left: 9."
    assert environment.step(QueryAction(sql="SELECT 1")).error is None


def test_queries_run_out_and_answers_do_not(environment: SqlEnvironment) -> None:
    seed_of_task = {"index": environment.state.index, "database": "shop", "difficulty": "easy"}
    environment.reset(max_queries=2, **seed_of_task)  # type: ignore[arg-type]
    environment.step(QueryAction(sql="SELECT 1"))
    last = environment.step(QueryAction(sql="SELECT 1"))
    assert last.text.endswith("No queries left: submit the answer.")
    with pytest.raises(IllegalActionError, match="none is left"):
        environment.step(QueryAction(sql="SELECT 1"))
    environment.step(SchemaAction())
    assert environment.state.step_count == 3
    assert environment.step(SubmitQueryAction(sql=right_query(environment))).reward == 1.0


def test_results_are_bounded(environment: SqlEnvironment) -> None:
    observation = environment.step(QueryAction(sql=ENDLESS))
    assert (len(observation.rows), observation.truncated) == (SHOWN_ROWS, True)
    assert "50 rows; there are more" in observation.text
    huge = environment.step(QueryAction(sql="SELECT hex(zeroblob(49999)), hex(zeroblob(49999))"))
    assert huge.truncated
    assert len(huge.model_dump_json()) < 5_000


def test_a_result_without_its_end_is_no_answer(environment: SqlEnvironment) -> None:
    end = environment.step(SubmitQueryAction(sql=ENDLESS))
    assert (end.reward, end.done) == (0.0, True)
    assert "longer than an answer may be" in end.text


def test_tables_are_described(environment: SqlEnvironment) -> None:
    every = environment.step(SchemaAction())
    assert every.text.count("CREATE TABLE") == 4
    assert "'cancelled'" in every.text
    one = environment.step(SchemaAction(table="orders"))
    assert one.text.startswith("CREATE TABLE orders (")
    assert (one.columns, len(one.rows)) == (["id", "customer_id", "ordered_on", "status"], 3)
    assert one.queries_left == 10


def test_before_a_reset_and_after_the_end_there_is_nothing_to_do(environment: SqlEnvironment) -> None:
    for action in (
        QueryAction(sql="SELECT 1"),
        SchemaAction(),
        SubmitAction(answer=1),
        SubmitQueryAction(sql="SELECT 1"),
    ):
        with pytest.raises(ResetNeededError):
            SqlEnvironment().step(action)
    environment.step(SubmitAction(answer=-1))
    with pytest.raises(ResetNeededError):
        environment.step(SubmitAction(answer=-1))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"split": "dev"}, TaskNotFoundError),
        ({"index": -1}, TaskNotFoundError),
        ({"index": 10_000}, TaskNotFoundError),
        ({"index": "1"}, TaskNotFoundError),
        ({"seed": "1"}, InvalidRequestError),
    ],
)
def test_a_reset_that_cannot_be_leaves_the_episode_as_it_was(
    environment: SqlEnvironment, arguments: dict[str, object], error: type[Exception]
) -> None:
    sql = right_query(environment)
    with pytest.raises(error, match="Expected"):
        environment.reset(**arguments)  # type: ignore[arg-type]  # a client may send anything
    assert environment.step(SubmitQueryAction(sql=sql)).reward == 1.0


def trace(environment: SqlEnvironment, seed: int) -> list[str]:
    shown = [environment.reset(seed=seed)]
    sql = query_for(shown[0].question)
    assert sql is not None
    shown += [environment.step(QueryAction(sql=f"SELECT * FROM {table}")) for table in sorted(shown[0].tables)]
    shown.append(environment.step(SubmitQueryAction(sql=sql)))
    return [observation.model_dump_json() for observation in shown]


def test_a_seed_is_an_episode_in_any_instance() -> None:
    used = SqlEnvironment()
    for seed in (0, 1, 2):
        assert trace(used, seed) == trace(SqlEnvironment(), seed)
    assert len({tuple(trace(used, seed)) for seed in range(10)}) == 10
    assert used.reset().question
    assert len({used.reset().question for _ in range(20)}) > 5


def test_a_copy_goes_its_own_way(environment: SqlEnvironment) -> None:
    environment.step(QueryAction(sql="SELECT 1"))
    twin = copy.deepcopy(environment)
    sql = right_query(environment)
    assert environment.step(SubmitAction(answer=-1)).reward == 0.0
    assert twin.state.queries_left == 9
    assert twin.step(SubmitQueryAction(sql=sql)).reward == 1.0


def test_the_answer_does_not_leak_before_the_end(environment: SqlEnvironment) -> None:
    shown: list[SqlObservation] = []
    for seed in range(20):
        shown.append(environment.reset(seed=seed, difficulty="hard"))
        shown.append(environment.step(SchemaAction()))
        shown.append(environment.step(QueryAction(sql="SELECT 1")))
        sql = right_query(environment)
        told = json.dumps([environment.state.model_dump(), *(one.model_dump() for one in shown[-3:])])
        assert sql not in told
        assert all(observation.metadata == {} for observation in shown)
        assert environment.state.answer is None
