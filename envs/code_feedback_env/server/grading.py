"""Have code called in a sandbox, and compare what it gave with what is right, outside."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json, to_json

from openenv.core.sandbox import Execution, Sandbox

CPU_S = 2
"""Seconds of CPU that loading the code, or one call, may take."""

WALL_S = 6.0
"""Seconds that loading the code, or one call, may take, on a busy machine."""

# After so many tests that took too long, the others are not tried: an attempt is not to last minutes.
_MOST_LATE = 2
_TOTAL_S = 20.0
_MOST_SHOWN = 300

Kind = Literal["value", "raised", "timeout", "ended", "skipped"]


@dataclass(frozen=True)
class Test:
    """Call of the function, and its right result.

    Attributes:
        arguments: Arguments of the function, JSON values.
        expected: Right result. It never enters the sandbox.
        shown: Whether the author of the function sees it.
    """

    arguments: list[Any]
    expected: Any
    shown: bool = False

    # So that pytest does not take it for a class of tests.
    __test__ = False


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call, as reported by the code.

    Attributes:
        kind: Whether it returned a ``value``, ``raised`` something, took too long (``timeout``), or ``ended`` its
            process; ``skipped`` where it was not called any more.
        value: What it returned.
        message: What was raised.
    """

    kind: Kind
    value: Any = None
    message: str = ""


@dataclass(frozen=True)
class Run:
    """Results of code with all its tests.

    Attributes:
        loaded: Outcome of loading the code.
        outcomes: Outcome of each test; none where the code was not loaded.
        printed: Output of the code, up to a limit.
        duration_s: Seconds that it took.
    """

    loaded: Outcome
    outcomes: list[Outcome]
    printed: str
    duration_s: float


def run_code(sandbox: Sandbox, code: str, function_name: str, tests: Sequence[Test]) -> Run:
    """Run code in an unused sandbox.

    Args:
        sandbox: The sandbox.
        code: The code.
        function_name: Name of the function that it is to define.
        tests: With what to call that.
    """
    request = {
        "code": code,
        "function_name": function_name,
        "tests": [test.arguments for test in tests],
        "cpu_s": CPU_S,
        "wall_s": WALL_S,
        "most_late": _MOST_LATE,
    }
    done = sandbox.run(["python3", "-s", "-S", "-P", "-c", _program()], stdin=json.dumps(request), wall_s=_TOTAL_S)
    reports = [_report(line) for line in done.stdout.split("\n") if line]
    outcomes = [_outcome(report) for report in reports[: len(tests) + 1] if "printed" not in report]
    printed = str(reports[-1].get("printed", "")) if reports else ""
    missing = Outcome("timeout" if done.timed_out else "ended", message=_why_ended(done))
    loaded, *given = outcomes or [missing]
    if loaded.kind == "value":
        given += [missing] * (len(tests) - len(given))
    return Run(loaded, given if loaded.kind == "value" else [], printed[:_MOST_SHOWN], done.duration_s)


def passes(outcome: Outcome, test: Test) -> bool:
    """Return whether the outcome of a test is right."""
    return outcome.kind == "value" and is_same(outcome.value, test.expected)


def is_same(given: Any, expected: Any) -> bool:
    """Compare JSON values. ``1`` is not ``True``; numbers with a fraction may differ by rounding.

    Args:
        given: What came out of the sandbox.
        expected: What is right.

    Example:
        >>> is_same([0.1 + 0.2, 2], [0.3, 2.0]), is_same([True], [1])
        (True, False)
    """
    if isinstance(expected, bool) or isinstance(given, bool):
        return given is expected
    if isinstance(expected, int | float) and isinstance(given, int | float):
        return given == expected if isinstance(expected, int) else _is_near(given, expected)
    if isinstance(expected, list) and isinstance(given, list):
        return len(given) == len(expected) and all(map(is_same, given, expected))
    if isinstance(expected, dict) and isinstance(given, dict):
        return given.keys() == expected.keys() and all(is_same(given[key], expected[key]) for key in expected)
    return type(given) is type(expected) and bool(given == expected)


def _is_near(given: float, expected: float) -> bool:
    try:
        return math.isclose(given, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # a whole number beyond all fractions
        return False


def call_text(function_name: str, arguments: Sequence[Any]) -> str:
    """Write a call as Python has it."""
    return f"{function_name}({', '.join(map(repr, arguments))})"


def failure_text(call: str, outcome: Outcome, expected: Any) -> str:
    """Return the fault in the outcome of a shown test.

    Args:
        call: The call.
        outcome: What it gave.
        expected: What is right.
    """
    if outcome.kind == "value":
        return f"{call}: expected {expected!r}, got {_short(repr(outcome.value))}"
    return f"{call}: expected {expected!r}, but {ending_text(outcome)}"


def ending_text(outcome: Outcome) -> str:
    """Return how code ended that did not return."""
    return {
        "value": "it returned",
        "raised": f"it raised {_short(outcome.message)}",
        "timeout": f"it took too long, more than {CPU_S} s of CPU or {WALL_S:g} s in all",
        "ended": f"it ended its process{outcome.message}",
        "skipped": "it was not called any more, after others had taken too long",
    }[outcome.kind]


def _report(line: str) -> dict[str, Any]:
    """Read a line of the runner, which may be anything."""
    try:
        report = from_json(line)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _outcome(report: dict[str, Any]) -> Outcome:
    if "value" in report:
        return Outcome("value", report["value"])
    if "raised" in report:
        return Outcome("raised", message=str(report["raised"]))
    return Outcome("timeout" if "timeout" in report else "skipped" if "skipped" in report else "ended")


def _why_ended(done: Execution) -> str:
    return f": {done.stopped}" if done.stopped else ""


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


@cache
def _program() -> str:
    return Path(__file__).with_name("runner.py").read_text(encoding="utf-8")


def as_json_values(value: Any) -> Any:
    """Return a value as JSON gives it back: tuples as lists."""
    return from_json(to_json(value))
