from collections import Counter
from random import Random
from typing import Any

import pytest

from code_feedback_env.models import DIFFICULTIES
from code_feedback_env.problems import PROBLEMS, Problem, Values

# By hand: parameters, an argument, and what is right.
RIGHT: dict[str, list[tuple[Values, Any, Any]]] = {
    "sum_of_multiples": [({"k": 3}, [3, -6, 4, 9], 6), ({"k": 2}, [], 0)],
    "count_longer": [({"k": 3}, ["oak", "pine", "ash", "maple"], 2)],
    "keep_between": [({"low": -2, "high": 5}, [6, 5, -2, -3, 0], [5, -2, 0])],
    "every_nth": [({"k": 3}, [1, 2, 3, 4, 5, 6, 7], [1, 4, 7])],
    "shift_letters": [({"k": 3}, "Axyz, 1", "Aabc, 1")],
    "count_letters": [({"letters": "acel"}, "Cedar elm!", 5)],
    "clamp_all": [({"low": 0, "high": 4}, [-1, 0, 3, 9], [0, 0, 3, 4])],
    "join_reversed": [({"sep": ", "}, ["a", "b"], "b, a"), ({"sep": "-"}, [], "")],
    "mean_of_largest": [({"k": 2}, [1, 4, 3], 3.5), ({"k": 3}, [1], 1.0), ({"k": 3}, [], 0.0)],
    "rotate_left": [({"k": 5}, [1, 2, 3], [3, 1, 2]), ({"k": 2}, [], [])],
    "digits": [({"base": 16}, 255, [15, 15]), ({"base": 2}, 0, [0]), ({"base": 10}, 907, [9, 0, 7])],
    "long_runs": [({"k": 2}, "aabccc", [["a", 2], ["c", 3]])],
    "chunks": [({"k": 2}, [1, 2, 3], [[1, 2], [3]]), ({"k": 2}, [], [])],
    "most_frequent": [({"k": 2}, ["b", "a", "c", "c"], ["c", "a"])],
    "moving_sums": [({"k": 2}, [1, 2, 3], [3, 5]), ({"k": 4}, [1], [])],
    "merge_intervals": [({"gap": 1}, [[5, 6], [1, 2], [3, 4], [8, 9]], [[1, 6], [8, 9]])],
    "wrap_words": [({"width": 7}, ["ash", "oak", "elm", "chestnut", "ivy"], ["ash oak", "elm", "chestnut", "ivy"])],
    "add_minutes": [({"k": 61}, "23:59", "01:00"), ({"k": 1440}, "09:05", "09:05")],
    "roman": [({}, 1994, "MCMXCIV"), ({}, 3999, "MMMCMXCIX"), ({}, 48, "XLVIII")],
    "longest_smooth": [({"k": 2}, [1, 3, 5, 9, 8], 3), ({"k": 2}, [], 0)],
    "fewest_coins": [({"coins": [2, 5, 6]}, 12, 2), ({"coins": [5, 7, 9]}, 6, -1), ({"coins": [2, 3, 4]}, 0, 0)],
    "last_left": [({"k": 3}, 7, 4), ({"k": 2}, 1, 1), ({"k": 2}, 41, 19)],
    "well_nested": [({"k": 2}, "([])()", True), ({"k": 2}, "((()))", False), ({"k": 2}, "([)]", False)],
    "left_to_right": [({"floor": 0}, "2 + 3 * 4", 20), ({"floor": 1}, "2 - 5 * 3", 3), ({"floor": 2}, "1 - 2", 2)],
    "fewest_steps": [({"k": 1}, ["..", ".."], 2), ({"k": 3}, ["....", "###."], 2), ({"k": 1}, [".#", "#."], -1)],
    "spiral": [({}, [[1, 2, 3], [4, 5, 6]], [1, 2, 3, 6, 5, 4]), ({}, [], [])],
    "leaders": [({"k": 5}, ["elm:3", "ash:5", "elm:2", "fir:4"], [["ash", 5], ["elm", 5]])],
}


def call(problem: Problem, values: Values, argument: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(problem.solved(values), namespace)
    return namespace[problem.name](argument)


def test_every_problem_was_solved_by_hand() -> None:
    assert RIGHT.keys() == {problem.name for problem in PROBLEMS}
    assert set(Counter(problem.difficulty for problem in PROBLEMS)) == set(DIFFICULTIES)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_solutions_are_right(problem: Problem) -> None:
    for values, argument, expected in RIGHT[problem.name]:
        assert call(problem, values, argument) == expected


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_parameters_can_be_read_off_the_prompt(problem: Problem) -> None:
    chance = Random(1)
    for _ in range(50):
        values = problem.parameters(chance)
        prompt = problem.asked(values)
        assert "$" not in prompt
        assert problem.read(prompt) == values
        assert [other.name for other in PROBLEMS if other.read(prompt) is not None] == [problem.name]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_what_is_tried_differs_and_so_does_what_is_right(problem: Problem) -> None:
    chance = Random(2)
    values = problem.parameters(chance)
    tried = [problem.arguments(chance, values)[0] for _ in range(40)]
    # Ten different ones are needed, and they are to be found soon.
    assert len(set(map(repr, tried))) > 15
    assert len({repr(call(problem, values, argument)) for argument in tried}) > 1
