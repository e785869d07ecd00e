"""Whether an answer is right."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.models import Answer
from sql_env.server.answers import Rows, is_right, rows_of

VALUES = st.none() | st.integers(-(10**9), 10**9) | st.text(max_size=5) | st.floats(-1e9, 1e9)
ROWS = st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (42, [[42]]),
        (42.0, [[42]]),
        ("42", [[42]]),
        (" 42 ", [[42]]),
        ("[42]", [[42]]),
        ([42], [[42]]),
        ([[42]], [[42]]),
        (12.3400001, [[12.34]]),
        ("Ada", [["Ada"]]),
        (" Ada\n", [["Ada"]]),
        ("O'Brien", [["O'Brien"]]),
        (["b", "a"], [["a"], ["b"]]),
        ('["b", "a"]', [["a"], ["b"]]),
        ([["b"], "a"], [["a"], ["b"]]),
        (["Ada", 3], [["Ada", 3]]),
        ([["b", 2], ["a", "1"]], [["a", 1], ["b", 2]]),
        ([], []),
        ("[]", []),
        ("NULL", [[None]]),
        ([None], [[None]]),
        ([1, 1, 2], [[1], [2], [1]]),
        ("[Ada]", [["[Ada]"]]),
        ("1024", [["1024"]]),
    ],
)
def test_right_answers(answer: Answer, expected: Rows) -> None:
    assert is_right(rows_of(answer, expected), expected, ordered=False)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (43, [[42]]),
        (42.001, [[42]]),
        ("forty-two", [[42]]),
        ("", [[42]]),
        ("42 43", [[42]]),
        ([42, 42], [[42]]),
        ([1, 2, 2], [[1], [2], [1]]),
        ([], [[42]]),
        ([[]], [[42]]),
        ("ada", [["Ada"]]),
        ("Ada, Bob", [["Ada"], ["Bob"]]),
        (["Ada"], [["Ada"], ["Bob"]]),
        (["Ada", "Bob"], [["Ada", "Bob"], ["Bob", "Ada"]]),
        (None, [[0]]),
        ([None], [["x"]]),
        ("null", [["x"]]),
        ("[" * 90_000, [[1]]),
        ("[NaN]", [[1]]),
        ("Infinity", [[1]]),
        (10**400, [[1]]),
        ("[" + "9" * 4_000 + "]", [[1]]),
        ('[{"a": 1}]', [[1]]),
        ("\u0661", [["1"]]),
    ],
)
def test_wrong_answers(answer: Answer, expected: Rows) -> None:
    assert not is_right(rows_of(answer, expected), expected, ordered=False)


def test_order_counts_only_where_it_is_asked_for() -> None:
    expected = [["a"], ["b"], ["c"]]
    for given_rows in permutations(expected):
        assert is_right(given_rows, expected, ordered=False)
        assert is_right(given_rows, expected, ordered=True) == (list(given_rows) == expected)


@given(ROWS, st.randoms())
def test_any_order_of_the_right_rows_is_right(rows: Rows, chance: object) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert is_right(shuffled, rows, ordered=False)
    assert is_right(rows, rows, ordered=True)
    assert not is_right([*shuffled, ["more", 1]], rows, ordered=False)


@pytest.mark.level("files")
def test_a_thousand_rows_are_compared_soon() -> None:
    rows: Rows = [[number, str(number)] for number in range(1_000)]
    assert is_right(list(reversed(rows)), rows, ordered=False)
