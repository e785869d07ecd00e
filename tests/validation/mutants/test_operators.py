"""Each operator on code: what becomes of a line, and what stays."""

import ast

import pytest

from openenv.validation.mutants.code import Code
from openenv.validation.mutants.operators import CODE_OPERATORS, Operator

CASES: dict[str, tuple[str, str]] = {
    "drop_check": ("if move < 0:\n    raise ValueError(move)", "pass"),
    "flip_comparison": ("return move in self.moves", "return (move not in self.moves)"),
    "shift_bound": ("return move < 9", "return (move <= 9)"),
    "off_by_one": ("return self.moves[0]", "return self.moves[(1)]"),
    "swap_arithmetic": ("return 2 * move", "return (2 + move)"),
    "swap_logic": ("return move and self.moves", "return (move or self.moves)"),
    "negate_condition": ("return 1.0 if move else 0.0", "return 1.0 if (not (move)) else 0.0"),
    "drop_update": ("self.moves += 1", "pass"),
    "drop_call": ("self.moves.append(move)", "pass"),
    "drop_normalisation": ("return move.strip()", "return (move)"),
    "swap_quantifier": ("return all(self.moves)", "return (any)(self.moves)"),
    "drop_copy": ("return list(self.moves)", "return (self.moves)"),
    "leave_loop": ("while move:\n    break", "while move:\n    continue"),
}
OPERATORS = {operator.name: operator for operator in CODE_OPERATORS}


def mutated(operator: Operator, text: str) -> list[str]:
    """Return the texts that an operator makes of one; each is Python."""
    code = Code("env.py", text)
    texts = [code.mutated(mutation) for mutation in operator.find(code)]
    assert all(ast.parse(each) for each in texts)
    return texts


def method(body: str, head: str = "def step(self, move):") -> str:
    return "\n".join(["class Env:", f"    {head}", *(f"        {line}" for line in body.splitlines())])


@pytest.mark.parametrize(("name", "texts"), CASES.items(), ids=CASES)
def test_an_operator_changes_a_line(name: str, texts: tuple[str, str]) -> None:
    before, after = texts
    assert mutated(OPERATORS[name], method(before)) == [method(after)]


def test_fields_are_kept_over_a_reset() -> None:
    head = "def reset(self, seed=None):"
    text = method("self.moves, self.at = [], 0\nlocal = 1", head)
    assert mutated(OPERATORS["keep_over_reset"], text) == [method("pass\nlocal = 1", head)]
    assert mutated(OPERATORS["drop_update"], text) == []


def test_an_error_is_swallowed_where_it_is_caught() -> None:
    text = method("try:\n    self.run()\nexcept OSError as error:\n    raise RuntimeError from error")
    assert mutated(OPERATORS["swallow_error"], text) == [
        method("try:\n    self.run()\nexcept OSError as error:\n    pass")
    ]


def test_an_error_of_a_grader_becomes_a_reward() -> None:
    head = "def grade(self, answer) -> float:"
    after = "try:\n    return self.run(answer)\nexcept Exception:\n    return 0.0"
    assert mutated(OPERATORS["swallow_error"], method("return self.run(answer)", head)) == [method(after, head)]


def test_a_verdict_accepts_more() -> None:
    head = "def is_right(answer) -> bool:"
    assert mutated(OPERATORS["loosen_match"], method("return answer == 'a'", head)) == [
        method("return (str('a') in str(answer))", head)
    ]
    assert mutated(OPERATORS["loosen_match"], method("return answer == 'a'")) == []


@pytest.mark.parametrize(
    "body", ["return 'a' + move", "return True", "return f'{move + 1}'", "super().__init__()", "x: 'Literal[1]' = move"]
)
def test_what_no_operator_changes(body: str) -> None:
    assert [text for operator in CODE_OPERATORS for text in mutated(operator, method(body))] == []
