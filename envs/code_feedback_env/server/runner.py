"""Runs in the sandbox: calls a function that a model wrote, in a child process, and reports its result.

It gets ``{"code", "function_name", "tests", "cpu_s", "wall_s", "most_late"}`` as JSON and writes a line of JSON for
loading the code, one for each test, and one for what was printed. Nothing here knows what is right: all that it reports
is the code's word.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

MOST_ANSWER_BYTES = 200_000
MOST_PRINTED_BYTES = 2_000
MOST_MESSAGE = 500
_FILE = "<code>"

Report = dict[str, Any]


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    items, place, late, printed = 1 + len(request["tests"]), 0, 0, b""
    while place < items and late < request["most_late"]:
        child = Child(request, place)
        while place < items and not child.ended:
            report = child.report(request["wall_s"])
            late += "timeout" in report
            place += 1
            _tell(report)
            if place == 1 and "value" not in report:  # it can't be loaded
                child.ended, place = True, items
        child.end()
        printed = (printed + child.printed)[:MOST_PRINTED_BYTES]
    for _ in range(place, items):
        _tell({"skipped": True})
    _tell({"printed": printed.decode(errors="replace")})


def _tell(report: Report) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


class Child:
    """A process that loads the code, and alone ever runs it. When a test ends it, the next one gets another child.

    Args:
        request: The request.
        first: With which item it begins: 0 for loading, 1 for the first test.

    Attributes:
        ended: Whether no more reports come.
        printed: What was written to its output so far, up to the limit.
    """

    def __init__(self, request: Report, first: int) -> None:
        self._answers, answering = os.pipe()
        self._output, printing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._answers)
            os.close(self._output)
            _be_child(request, first, answering, printing)
        os.close(answering)
        os.close(printing)
        self._buffer = b""
        self.printed = b""
        self._open = {self._answers, self._output}
        self.ended = False

    def report(self, wall_s: float) -> Report:
        """Wait for what the next item gives.

        Args:
            wall_s: Seconds that it may take.
        """
        line = self._line(time.monotonic() + wall_s)
        return self._why_ended() if line is None else _read(line)

    def end(self) -> None:
        """End it and what it has started, as far as that is of its group; the sandbox ends the rest."""
        for kill in (os.killpg, os.kill):  # it may not have a group yet, and it may have left it
            with suppress(OSError):
                kill(self._pid, signal.SIGKILL)
        self._wait()
        os.close(self._answers)
        os.close(self._output)

    def _line(self, deadline: float) -> "bytes | None":
        """Read a line; ``None`` where none came. What is printed beyond its limit is thrown away."""
        while b"\n" not in self._buffer:
            if self._answers not in self._open or len(self._buffer) > MOST_ANSWER_BYTES:
                self.ended = True
                return None
            ready = select.select(list(self._open), [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                self.ended = True
                return None
            for pipe in ready:
                self._take(pipe)
        # What was printed before the line is in the pipe already.
        while self._output in self._open and select.select([self._output], [], [], 0)[0]:
            self._take(self._output)
            if time.monotonic() > deadline:
                break
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _take(self, pipe: int) -> None:
        data = os.read(pipe, 65536)
        if not data:
            self._open.discard(pipe)
        elif pipe == self._answers:
            self._buffer += data
        else:
            self.printed = (self.printed + data)[:MOST_PRINTED_BYTES]

    def _why_ended(self) -> Report:
        if len(self._buffer) > MOST_ANSWER_BYTES:
            return {"raised": f"ValueError: the function returned more than {MOST_ANSWER_BYTES} bytes as JSON"}
        if self._answers in self._open:
            return {"timeout": True}
        status = self._wait()
        out_of_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return {"timeout": True} if out_of_time else {"ended": True}

    def _wait(self) -> int:
        """Return its status once it has ended; 0 from the second call on."""
        try:
            os.kill(self._pid, signal.SIGKILL)  # one that ends by itself, and is not gone yet, keeps its status
            return os.waitpid(self._pid, 0)[1]
        except OSError:
            return 0


def _read(line: bytes) -> Report:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return {"ended": True}
    return report if isinstance(report, dict) else {"ended": True}


# --- In the child -----------------------------------------------------------------------------------------------------


def _be_child(request: Report, first: int, answering: int, printing: int) -> None:
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(printing, 1)
    os.dup2(printing, 2)
    namespace: dict[str, Any] = {"__name__": "solution"}
    for arguments in [None, *request["tests"][max(0, first - 1) :]]:
        _allow_cpu(request["cpu_s"])
        answer = _answer(request, namespace, arguments)
        if arguments is not None or first == 0:
            _send(answering, answer)
    os._exit(0)


def _allow_cpu(cpu_s: int) -> None:
    """Allow so many seconds from now on."""
    highest = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit_s = int(time.process_time()) + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s if highest < 0 else min(limit_s, highest), highest))


def _send(answering: int, answer: str) -> None:
    data = answer.encode() + b"\n"
    while data:
        data = data[os.write(answering, data) :]


def _answer(request: Report, namespace: "dict[str, Any]", arguments: "list[Any] | None") -> str:
    """Load the code, where there are no arguments, or call the function with them."""
    try:
        value = None
        if arguments is None:
            _load(request["code"], request["function_name"], namespace)
        else:
            value = _plain(namespace[request["function_name"]](*arguments))
        answer = json.dumps({"value": value})
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the code's
        return json.dumps({"raised": _described(error)})
    return answer


def _load(code: str, name: str, namespace: "dict[str, Any]") -> None:
    exec(compile(code, _FILE, "exec"), namespace)  # noqa: S102  # this is the sandbox
    if not callable(namespace.get(name)):
        raise NameError(f"the code defines no function {name!r}")


def _plain(value: Any) -> Any:
    """Check that a value is equal after JSON, but for tuples, which count as lists."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    kind = type(value).__name__
    raise TypeError(
        f"the function returned a {kind}; expected numbers, texts, None, lists, or dicts with texts as keys"
    )


def _described(error: BaseException) -> str:
    """Return the exception that was raised, and the line of the code."""
    import traceback  # only errors need it, and it takes a while to load

    text = traceback.format_exception_only(error)[-1].strip()[:MOST_MESSAGE]
    if isinstance(error, SyntaxError):
        lines = [] if error.lineno is None else [error.lineno]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == _FILE and frame.lineno is not None]
    return f"{text} (line {lines[-1]})" if lines else text


if __name__ == "__main__":
    main()
