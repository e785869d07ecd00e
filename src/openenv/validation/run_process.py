"""Run of the checks in a separate process: an author's code may end it, or never return."""

import faulthandler
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, NoReturn

from pydantic import TypeAdapter

from openenv.auto.discovery import find_environment
from openenv.core.process_end import how_ended
from openenv.validation.card.measuring import CARD_CHECKS, each_card_results
from openenv.validation.findings import Check, fail, results_of
from openenv.validation.report import CheckResult
from openenv.validation.run_checks import RUN_CHECKS, each_results
from openenv.validation.semantic.checks import SEMANTIC_CHECKS
from openenv.validation.semantic.package import each_package_results
from openenv.validation.statistical.checks import STATISTICAL_CHECKS, each_statistical_results
from openenv.validation.trials import RunLimits
from openenv.validation.types import Level

_STANDARD_ERROR = 2
_POLL_S = 0.1
_RESULTS = TypeAdapter(list[CheckResult])
_CHECKS: tuple[Check[Any], ...] = (*RUN_CHECKS, *SEMANTIC_CHECKS, *STATISTICAL_CHECKS, *CARD_CHECKS)
_END = "null"  # behind the last result
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_ENDED = "the player, the client or the models end it, with os._exit or by a crash in a library"
_HANGS = "the player, the client or the models block all of its threads"
_REMEDY = "Raise an exception where something is wrong, and call what may crash or hang in a separate process."


@dataclass(frozen=True)
class ProcessOptions:
    """Options of a process that runs checks.

    Attributes:
        variables: Environment variables for it and the servers that it starts, on top of this process's own.
        is_quiet: Whether what the author's code and its servers print is shown nowhere.
        with_card: Whether what a card has beside is measured too.
        stop: Event that ends it; ``None`` where it ends by itself alone.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    is_quiet: bool = False
    with_card: bool = False
    stop: Event | None = None


def run_in_process(
    target: str | Path, limits: RunLimits, max_level: Level = Level.RUNTIME, options: ProcessOptions | None = None
) -> list[CheckResult]:
    """Run the checks of an environment that runs in a separate process. A check in which that ends, or hangs, fails.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
    """
    return [result for results in each_in_process(target, limits, max_level, options) for result in results]


def each_in_process(
    target: str | Path, limits: RunLimits, max_level: Level, options: ProcessOptions | None = None
) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each check as soon as they are known; the process ends with the iterator.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
    """
    folder, options = find_environment(target).folder, options or ProcessOptions()
    with TemporaryDirectory(prefix="openenv-validate-") as temporary:
        results, crash = Path(temporary) / "results.jsonl", Path(temporary) / "crash.txt"
        results.touch()
        crash.touch()
        arguments = (
            str(target),
            json.dumps(asdict(limits)),
            str(int(max_level)),
            str(int(options.with_card)),
            str(results),
            str(crash),
        )
        count = 0
        with program_process(__name__, arguments, options) as process:
            for line in _lines(process, results, limits.check_s, options.stop):
                if line == _END:
                    return
                yield _RESULTS.validate_json(line)
                count += 1
            is_hanging = process.poll() is None
            process.kill()
        if options.stop is not None and options.stop.is_set():
            return
        end = (
            f"did not end within {limits.check_s:g} s: {_HANGS}"
            if is_hanging
            else f"{how_ended(process.returncode)}: {_ENDED}"
        )
        yield results_of(_CHECKS[count], [fail(f"its process {end}{_where(crash, folder)}", _REMEDY)], 0.0)


@contextmanager
def program_process(
    module: str, arguments: Sequence[str], options: ProcessOptions
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a module of this package as a program, in a process that is killed at the end of the context."""
    # What an author's code prints is no part of the report.
    output = subprocess.DEVNULL if options.is_quiet else _STANDARD_ERROR
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, **options.variables},
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # which does nothing where it has ended


def ended_in_time(process: "subprocess.Popen[bytes]", limit_s: float, stop: Event | None) -> bool:
    """Wait for the end of a process, and return whether it ended by itself, in time and before the event."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until and not (stop is not None and stop.is_set()):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
            return True
    return False


def _lines(process: "subprocess.Popen[bytes]", file: Path, line_s: float, stop: Event | None) -> Iterator[str]:
    """Iterate over the lines that a process writes to a file, until it ends, or writes no further one in time."""
    with file.open(encoding="utf-8") as written:
        begun, until = "", time.monotonic() + line_s
        while time.monotonic() < until and not (stop is not None and stop.is_set()):
            has_ended = process.poll() is not None
            *whole, begun = (begun + written.read()).split("\n")
            if whole:
                yield from whole
                until = time.monotonic() + line_s
            elif has_ended:
                return
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)


def _where(crash: Path, folder: Path) -> str:
    """Return the line of the environment's folder that ran when the process ended, if that is known."""
    for frame in _FRAME.finditer(crash.read_text(encoding="utf-8", errors="replace")):
        if Path(frame["file"]).is_relative_to(folder):
            return f" ({Path(frame['file']).relative_to(folder)}, line {frame['line']}, in {frame['function']})"
    return ""


def _each_results(target: str, limits: RunLimits, level: Level, *, with_card: bool) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each check; what does not run has no rewards to judge."""
    package, count = find_environment(target), 0
    for found in each_results(package, limits):
        yield found
        count += 1
    if level >= Level.SEMANTIC and count == len(RUN_CHECKS):
        yield from each_package_results(package, limits)
    if level >= Level.STATISTICAL and count == len(RUN_CHECKS):
        yield from each_statistical_results(package, limits)
    if with_card and count == len(RUN_CHECKS):
        yield from each_card_results(package, limits)


def main() -> NoReturn:
    """Run the checks of the environment that the command line names, and write each result as a line of JSON."""
    target, limits, level, with_card, results, crash = sys.argv[1:]
    bounds = RunLimits(**json.loads(limits))
    end = os._exit
    with Path(crash).open("w", encoding="utf-8") as trace, Path(results).open("w", encoding="utf-8") as lines:

        def exit_with_trace(status: int) -> NoReturn:
            faulthandler.dump_traceback(trace)
            end(status)

        faulthandler.enable(trace)
        os._exit = exit_with_trace
        for found in _each_results(target, bounds, Level(int(level)), with_card=bool(int(with_card))):
            print(_RESULTS.dump_json(found).decode(), file=lines, flush=True)
            if bounds.until is not None and time.monotonic() > bounds.until:
                break
        print(_END, file=lines, flush=True)
    end(0)  # whatever threads the author's code has left


if __name__ == "__main__":
    main()
