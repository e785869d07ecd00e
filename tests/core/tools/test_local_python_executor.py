"""``PyExecutor``: Python in the interpreter of smolagents, answered as the public package answers."""

import pytest

from openenv.core.tools import PyExecutor
from openenv.core.tools.local_python_executor import PyExecutor as ByItsModule


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("print('a'); 1 + 1", "a\n\n2"),
        ("print(1)\nprint(2)", "1\n2\n"),
        ("x = 3", "3"),
        ("{'a': [1, 2]}", '{"a": [1, 2]}'),
        ("'text'", '"text"'),
        ("{1, }", "{1}"),
        ("None", ""),
        ("def double(a):\n    return a * 2\ndouble(4)", "8"),
        ("safe_json_dumps({'a': 1})", '"{\\"a\\": 1}"'),
        ("format_exc()", '"NoneType: None\\n"'),
    ],
)
def test_what_code_prints_and_its_last_value(code: str, stdout: str) -> None:
    result = PyExecutor().run(code)
    assert (result.stdout, result.stderr, result.exit_code) == (stdout, "", 0)


@pytest.mark.parametrize(
    ("code", "error"), [("print('a')\n1 / 0", "ZeroDivisionError"), ("(", "SyntaxError"), ("import os", "import")]
)
def test_code_that_raises(code: str, error: str) -> None:
    result = PyExecutor().run(code)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr.startswith("Traceback")
    assert error in result.stderr


def test_names_stay_in_one_executor_alone() -> None:
    executor = PyExecutor()
    assert executor.run("total = 40").exit_code == 0
    assert executor.run("total + 2").stdout == "42"
    assert PyExecutor().run("total").exit_code == 1


def test_further_imports() -> None:
    assert PyExecutor(additional_imports=["json"]).run("import json\njson.dumps([1])").stdout == '"[1]"'
    assert ByItsModule is PyExecutor
