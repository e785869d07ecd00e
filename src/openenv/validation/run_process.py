"""Run of the checks in a separate process: an author's code may end it, or never return."""

import faulthandler
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
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
_RESULTS = TypeAdapter(list[CheckResult])
_CHECKS: tuple[Check[Any], ...] = (*RUN_CHECKS, *SEMANTIC_CHECKS, *STATISTICAL_CHECKS, *CARD_CHECKS)
_END = "null"  # behind the last result
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_ENDED = "the player, the client or the models end it, with os._exit or by a crash in a library"
_HANGS = "the player, the client or the models block all of its threads"
_REMEDY = "Raise an exception where something is wrong, and call what may crash or hang in a separate process."


def run_in_process(
    target: str | Path, limits: RunLimits, max_level: Level = Level.RUNTIME, *, with_card: bool = False
) -> list[CheckResult]:
    """Run the checks of an environment that runs in a separate process. A check in which that ends, or hangs, fails.

    Args:
        target: The environment.
        limits: Limits of the run.
        max_level: The highest level of checks.
        with_card: Whether what a card has beside is measured too.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
    """
    folder = find_environment(target).folder
    with TemporaryDirectory(prefix="openenv-validate-") as temporary:
        results, crash = Path(temporary) / "results.jsonl", Path(temporary) / "crash.txt"
        results.touch()
        crash.touch()
        command = [
            sys.executable,
            "-P",
            "-m",
            __name__,
            str(target),
            json.dumps(asdict(limits)),
            str(int(max_level)),
            str(int(with_card)),
            str(results),
            str(crash),
        ]
        # What an author's code prints is no part of the report.
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=_STANDARD_ERROR) as process:  # noqa: S603
            is_hanging = _is_hanging(process, results, limits.check_s)
        lines = results.read_text(encoding="utf-8").splitlines()
        where = _where(crash, folder)
    ended = [_RESULTS.validate_json(line) for line in lines if line != _END]
    found = [result for results in ended for result in results]
    if lines[-1:] == [_END]:
        return found
    end = (
        f"did not end within {limits.check_s:g} s: {_HANGS}"
        if is_hanging
        else f"{how_ended(process.returncode)}: {_ENDED}"
    )
    return [*found, *results_of(_CHECKS[len(ended)], [fail(f"its process {end}{where}", _REMEDY)], 0.0)]


def _is_hanging(process: "subprocess.Popen[bytes]", results: Path, check_s: float) -> bool:
    """Wait for the end of a process, and kill it where no check ends in time; return whether that was so."""
    size = -1
    try:
        while process.poll() is None and size != results.stat().st_size:
            size = results.stat().st_size
            with suppress(subprocess.TimeoutExpired):
                process.wait(check_s)
        return process.poll() is None
    finally:
        process.kill()  # which does nothing where it has ended


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
