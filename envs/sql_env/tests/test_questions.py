"""The questions, and how they are read back."""

from collections import Counter

import pytest

from sql_env import SubmitAction
from sql_env.models import DATABASES, DIFFICULTIES, Value
from sql_env.player import query_for
from sql_env.questions import QUESTIONS, Question
from sql_env.server.sql_environment import SqlEnvironment

WRONG = SubmitAction(answer="certainly not this")


def test_every_database_has_four_questions_of_each_difficulty() -> None:
    counted = Counter((kind.database, kind.difficulty) for kind in QUESTIONS)
    assert counted == {(database, difficulty): 4 for database in DATABASES for difficulty in DIFFICULTIES}


def test_every_kind_is_asked_and_answered_and_no_two_are_mistaken() -> None:
    environment, seen = SqlEnvironment(), set()
    for database in DATABASES:
        for difficulty in DIFFICULTIES:
            for seed in range(25):
                question = environment.reset(seed=seed, database=database, difficulty=difficulty).question
                (kind,) = [kind for kind in QUESTIONS if kind.values_in(question) is not None]
                assert (kind.database, kind.difficulty) == (database, difficulty)
                seen.add(kind)
    assert seen == set(QUESTIONS)


def test_answers_are_short_and_seldom_empty() -> None:
    environment = SqlEnvironment()
    sizes = []
    for seed in range(150):
        environment.reset(seed=seed)
        expected = environment.step(WRONG).metadata["expected"]
        assert all(value is not None for row in expected for value in row)
        sizes.append(len(expected))
    assert max(sizes) <= 50
    assert sizes.count(0) < 10
    assert sizes.count(1) < 120


def test_no_fixed_answer_is_often_right() -> None:
    environment = SqlEnvironment()
    answers: Counter[str] = Counter()
    for seed in range(150):
        environment.reset(seed=seed)
        answers[str(environment.step(WRONG).metadata["expected"])] += 1
    assert answers.most_common(1)[0][1] < 15


@pytest.mark.parametrize("name", ["O'Brien", "'; DROP TABLE customers; --", "''", "a {b} c", "日本"])
def test_a_value_stands_in_its_place_whatever_it_is(name: str) -> None:
    kind = Question("shop", "easy", "What of {name} since {year}?", "SELECT {name}, {year}")
    values: dict[str, Value] = {"name": name, "year": 2024}
    assert kind.values_in(kind.asked(values)) == values
    quoted = name.replace("'", "''")
    assert kind.answered(values) == f"SELECT '{quoted}', 2024"


def test_other_questions_are_not_known() -> None:
    assert query_for("What is the meaning of life?") is None
    assert query_for("Tell me: How many customers live in Porto?") is None
