"""Each operator on an environment: its seeds, its state, its rewards, its ends, its observations."""

import ast

import pytest

from openenv.validation.mutants.code import Code
from openenv.validation.mutants.environment_operators import OPERATORS

TEXT = """
class Env:
    def reset(self, seed=None):
        self.random = Random(seed)
        self.secret = self.random.choice(WORDS)
        self.steps = 0
        return GuessObservation(text="Guess.", done=False, reward=None)

    def step(self, action):
        self.steps += 1
        is_right = action.word == self.secret
        return GuessObservation(text="no", done=is_right, reward=float(is_right))
"""
CASES: dict[str, list[tuple[str, str]]] = {
    "constant_reward": [("float(is_right)", "(0.0)"), ("float(is_right)", "(1.0)")],
    "negate_reward": [("float(is_right)", "((lambda reward: reward and -reward)(float(is_right)))")],
    "last_reward": [
        (
            "float(is_right)",
            '((self.__dict__.setdefault("kept_rewards", [0.0]).append(float(is_right)), '
            'self.__dict__["kept_rewards"][-2])[1])',
        )
    ],
    "wall_clock": [
        ("float(is_right)", '(float(is_right) if __import__("time").time_ns() // 1000 % 4 else 0.0)'),
        ("        self.random =", '        seed = __import__("time").time_ns()\n        self.random ='),
    ],
    "ignore_seed": [
        ("        self.random =", "        seed = None\n        self.random ="),
        ("Random(seed)", "Random((None))"),
    ],
    "fix_seed": [("        self.random =", "        seed = 7\n        self.random =")],
    "unseeded_draw": [("self.random.choice", '(__import__("random").choice)')],
    "never_done": [("done=False", "done=(False)"), ("done=is_right", "done=(False)")],
    "always_done": [("done=False", "done=(True)"), ("done=is_right", "done=(True)")],
}


def mutants(name: str, text: str = TEXT) -> list[str]:
    code = Code("env.py", text)
    operator = next(each for each in OPERATORS if each.name == name)
    found = [code.mutated(mutation) for mutation in operator.find(code)]
    assert all(ast.parse(each) for each in found)
    return found


@pytest.mark.parametrize(("name", "changes"), CASES.items(), ids=CASES)
def test_an_operator_changes_an_environment(name: str, changes: list[tuple[str, str]]) -> None:
    assert mutants(name) == [TEXT.replace(before, after) for before, after in changes]


def test_each_field_is_kept_in_the_class_in_turn() -> None:
    assert mutants("share_state") == [
        TEXT.replace(f"self.{name} ", f"type(self).{name} ") for name in ("random", "secret", "steps")
    ]


def test_answers_are_shown_in_texts_and_metadata() -> None:
    shown = mutants("leak_answer")
    assert [
        text for text in shown if "(answer: {self.secret})" in text or '" (answer: " + str(self.secret)' in text
    ] == [
        shown[1],
        shown[3],
    ]
    assert ["metadata={'debug': str(self.secret)}" in text for text in shown] == [True, False, True, False]


def test_fields_without_an_answer_are_not_shown() -> None:
    assert len(mutants("leak_field")) == 2
    assert mutants("leak_field", TEXT.replace("secret", "word")) == []


def test_the_reward_of_an_assignment_and_of_a_grader_count_too() -> None:
    text = "class Rule:\n    def forward(self, action) -> float:\n        return float(action)\n"
    assert mutants("constant_reward", text) == [text.replace("float(action)", f"({each})") for each in ("0.0", "1.0")]
    text = "def judge(seen):\n    seen.reward = 1.0\n"
    assert mutants("constant_reward", text) == [text.replace("1.0", "(0.0)")]


def test_there_are_some_twenty_operators() -> None:
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS) == 28
