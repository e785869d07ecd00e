"""A file as operators see it: what of it runs, and how its text changes."""

import ast

from openenv.validation.mutants.code import Code

TEXT = '''"""A module."""
import os


class Game:
    """A game."""

    def step(self, move: "int" = 3) -> int:
        """Step."""
        total = 1 + (
            2
        )
        return f"é {move + 1}" if move else "ü" + str(total)

    def render(self):
        return 5
'''


def numbers(code: Code) -> list[object]:
    return [node.value for node in code.of_type(ast.Constant)]


def test_what_does_not_run_for_an_agent_is_not_changed() -> None:
    assert numbers(Code("game.py", TEXT)) == [1, 2, "ü"]


def test_a_change_keeps_the_rest_of_the_text() -> None:
    code = Code("game.py", TEXT)
    text = next(node for node in code.of_type(ast.Constant) if node.value == "ü")
    mutation = code.replace(text, '"o"')
    assert code.mutated(mutation) == TEXT.replace('"ü"', '("o")')
    assert (mutation.line, mutation.change) == (13, "'ü' becomes \"o\"")


def test_a_mutation_has_the_lines_of_its_statement() -> None:
    code = Code("game.py", TEXT)
    second = next(node for node in code.of_type(ast.Constant) if node.value == 2)
    assert list(code.replace(second, "3").lines) == [10, 11]


def test_a_statement_is_put_behind_the_docstring() -> None:
    code = Code("game.py", TEXT)
    changed = code.mutated(code.begin(code.functions[0], "move = 0", "always 0"))
    assert '"""Step."""\n        move = 0\n        total' in changed


def test_a_body_is_replaced_with_its_docstring() -> None:
    code = Code("game.py", TEXT)
    changed = code.mutated(code.rewrite(code.functions[0], ["move += 1", "return move"], "another body"))
    assert "-> int:\n        move += 1\n        return move\n\n    def render" in changed
