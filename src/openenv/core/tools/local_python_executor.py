"""Run Python in the interpreter of smolagents, which knows few imports and no files."""

import json
import traceback
from collections.abc import Iterable
from typing import Any

from openenv.core.wire.types import CodeExecResult

try:
    from smolagents import LocalPythonExecutor
except ImportError as error:
    raise ImportError("PyExecutor needs smolagents: pip install smolagents") from error


class PyExecutor:
    """Runs code that an agent wrote; names that it defines stay for the next run.

    The interpreter is smolagents' own, in this process, without limits of time or memory. It keeps honest code from
    mistakes and is no border against hostile code: that is what ``openenv.core.sandbox`` is for.

    Args:
        additional_imports: Modules that the code may import, beside the few that smolagents allows.

    Example::

        executor = PyExecutor()
        executor.run("answer = 21 * 2")
        executor.run("answer").stdout  # "42"
    """

    def __init__(self, additional_imports: Iterable[str] | None = None) -> None:
        self._executor = LocalPythonExecutor(additional_authorized_imports=list(additional_imports or ()))
        self._executor.send_tools({"format_exc": traceback.format_exc, "safe_json_dumps": _json_of})

    def run(self, code: str) -> CodeExecResult:
        """Run code.

        Args:
            code: The code, which may use ``format_exc()`` and ``safe_json_dumps(value)``.

        Returns:
            What the code printed and, on a line of its own, the value of its last expression as JSON (``repr`` of what
            is no JSON, nothing for ``None``). If it raised: nothing printed, the traceback in ``stderr``, exit code 1.
        """
        try:
            result = self._executor(code)
        except Exception:  # noqa: BLE001  # whatever the code raises is the result of running it
            return CodeExecResult(stdout="", stderr=traceback.format_exc(), exit_code=1)
        value = None if result.output is None else _json_of(result.output)
        printed = [text for text in (result.logs, value) if text]
        return CodeExecResult(stdout="\n".join(printed), stderr="", exit_code=0)


def _json_of(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
