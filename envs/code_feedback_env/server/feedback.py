"""Feedback on code: its results in the tests, without those of the hidden ones."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from openenv.core.sandbox import Sandbox

from ..models import CodeAction
from .grading import Outcome, Run, Test, call_text, ending_text, failure_text, passes, run_code

_KINDS = {
    "value": "returned something else",
    "raised": "raised an exception",
    "timeout": "took too long",
    "ended": "ended the process",
    "skipped": "were not tried any more",
}


@dataclass(frozen=True)
class Verdict:
    """Verdict on code.

    Attributes:
        status: ``ok``, ``error`` or ``timeout``.
        output: Text of the feedback.
        error: Reason why the code can't be used; ``None`` if it can.
        execution_time_ms: Milliseconds that the shown tests took.
        passed: Number of tests that passed.
    """

    status: Literal["ok", "error", "timeout"]
    output: str | None
    error: str | None
    execution_time_ms: float
    passed: int = 0

    @property
    def text(self) -> str:
        """The same in words."""
        return self.output or "" if self.error is None else f"The code can't be used: {self.error}"


def judge(sandbox: Sandbox, action: CodeAction, tests: Sequence[Test]) -> Verdict:
    """Run code with tests.

    Hidden tests get a separate run, of which only counts are reported: code that was called with them, or could look
    for them in its process, has no way to reveal them.

    Args:
        sandbox: An unused sandbox.
        action: The code.
        tests: The tests; there may be none.
    """
    shown = [test for test in tests if test.shown]
    hidden = [test for test in tests if not test.shown]
    run = run_code(sandbox, action.code, action.function_name, shown)
    took_ms = round(run.duration_s * 1000, 2)
    if run.loaded.kind != "value":
        status: Literal["error", "timeout"] = "timeout" if run.loaded.kind == "timeout" else "error"
        return Verdict(status, None, _why_broken(run.loaded), took_ms)
    secret = run_code(sandbox, action.code, action.function_name, hidden) if hidden else Run(run.loaded, [], "", 0.0)
    outcomes = run.outcomes + (secret.outcomes or [secret.loaded] * len(hidden))
    right = [passes(outcome, test) for outcome, test in zip(outcomes, shown + hidden, strict=True)]
    lines = [
        f"Function {action.function_name!r} defined successfully.",
        *([f"{sum(right)} of {len(tests)} tests passed."] if tests else []),
        *_shown_lines(action.function_name, shown, outcomes),
        *_hidden_lines(outcomes[len(shown) :], right[len(shown) :]),
        *_printed_lines(run),
    ]
    late = any(outcome.kind == "timeout" for outcome in outcomes)
    return Verdict("timeout" if late else "ok", "\n".join(lines), None, took_ms, sum(right))


def _why_broken(loaded: Outcome) -> str:
    return loaded.message if loaded.kind == "raised" else ending_text(loaded)


def _shown_lines(name: str, shown: Sequence[Test], outcomes: Sequence[Outcome]) -> list[str]:
    return [
        failure_text(call_text(name, test.arguments), outcome, test.expected)
        for test, outcome in zip(shown, outcomes, strict=False)
        if not passes(outcome, test)
    ]


def _hidden_lines(outcomes: Sequence[Outcome], right: Sequence[bool]) -> list[str]:
    if not outcomes:
        return []
    counts = Counter(_KINDS[outcome.kind] for outcome, passed in zip(outcomes, right, strict=True) if not passed)
    wrong = "".join(f"; {count} {kind}" for kind, count in sorted(counts.items()))
    return [f"Hidden tests: {sum(right)} of {len(right)} passed{wrong}."]


def _printed_lines(run: Run) -> list[str]:
    return [f"It printed: {run.printed.rstrip()}"] if run.printed else []
