"""Code in a confined process of its own, which calls functions of this one."""

import os
from typing import Any

import pytest

from openenv.core.confinement import can_confine
from openenv.core.confinement.execution import run_confined

pytestmark = [
    pytest.mark.level("process"),
    pytest.mark.skipif(not can_confine(), reason="this machine has no Landlock: a newer kernel brings it"),
]
CATCHES = """
try:
    double(x=None)
except RuntimeError as error:
    result = "TypeError" if "unsupported operand" in str(error) else str(error)
"""
ENDED = {"error": "The process of the code has ended before the code had."}


def double(x: Any) -> Any:
    """Return a value twice."""
    return 2 * x


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("result = [double(x=i) for i in range(3)]", {"result": [0, 2, 4]}),
        ("result = double(x='a') + double(x='b')", {"result": "aabb"}),
        ("x = 1", {"result": None}),
        ("result = {'a': {1}}", {"result": {"a": [1]}}),
        ("1 / 0", {"error": "division by zero"}),
        ("raise KeyError", {"error": "KeyError"}),
        (CATCHES, {"result": "TypeError"}),
        ("import os\nos._exit(3)", ENDED),
        ("raise SystemExit(0)", ENDED),
    ],
)
def test_what_comes_of_code(code: str, outcome: dict[str, Any]) -> None:
    assert run_confined(code, {"double": double}) == outcome


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("result = object()", "The value of `result` can't be sent"),
        ("double(x=object())", "The arguments of double can't be sent"),
        ("odd()", "The function's value can't be sent to the code"),
        ("double(1)", "takes 1 positional argument but 2 were given"),
    ],
)
def test_what_json_can_not_hold_is_an_error(code: str, said: str) -> None:
    assert said in run_confined(code, {"double": double, "odd": object})["error"]


@pytest.mark.parametrize(
    "line",
    [b"no JSON", b"[1]", b'{"call": "os", "arguments": {}}', b'{"call": "double"}', b'{"error": 1}', b"[" * 999],
)
def test_what_the_process_sends_may_be_anything(line: bytes) -> None:
    forged = f"""
import os
for descriptor in range(3, 1000):
    try:
        os.write(descriptor, {line!r} + bytes([10]))
    except OSError:
        pass
"""
    assert run_confined(forged, {"double": double}) == ENDED


def test_the_code_has_no_secret_and_can_not_read_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "not for the code")
    code = f"import os\nresult = 'SOME_TOKEN' in os.environ\nopen('/proc/{os.getpid()}/environ', 'rb').read()"
    assert "Permission denied" in run_confined(code, {})["error"]
    assert run_confined(code.rpartition("\n")[0], {}) == {"result": False}
