"""Environments that declare to be graded from artifacts alone, and let something else of the agent reach the grader."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from tests.validation.museum.exhibit import Program, Programs, Shell, Shown, exhibit

from openenv.validation.semantic.graded import DeclaredRewards

COUNT = DeclaredRewards(artifacts=("count.txt",))
CODE = DeclaredRewards(artifacts=("code",))
_PATH = "/usr/bin:/bin"


class IsolatedShell(Shell):
    """A work folder whose commands are ended with all that they have started; a class below it grades."""

    ends_processes: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._base, self._number = self.folder.parent, 0

    def reset(self, seed: int | None = None) -> Shown:
        self._number += 1
        self.folder = self._base / f"work{self._number}"
        self.variables: dict[str, str] = {"PATH": _PATH}
        return super().reset(seed)

    def output(self, command: str) -> str:
        state = self._base / "variables"
        state.unlink(missing_ok=True)
        with subprocess.Popen(
            ["/bin/sh", "-c", f"{command}\n/usr/bin/env -0 > {state}"],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            output, _ = process.communicate(timeout=60)
        if self.sound or self.ends_processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if state.is_file():
            pairs = [line.partition("=") for line in state.read_text(errors="replace").split("\0") if line]
            self.variables = {name: value for name, _, value in pairs}
        return output.decode(errors="replace")[:20_000]

    def passes(self, command: list[str], variables: Mapping[str, str], folder: Path | None = None) -> float:
        """Run a verifier, whose status is the verdict."""
        result = subprocess.run(
            command, cwd=folder or self.folder, env=dict(variables), timeout=60, check=False, stderr=subprocess.DEVNULL
        )
        if result.returncode < 0:
            raise RuntimeError(f"the verifier was killed by signal {-result.returncode}")
        return float(result.returncode == 0)


@exhibit("isolated_grading", declared=COUNT, evidence="running processes reach the grader")
class AgentStillRuns(IsolatedShell):
    """Terminal Wrench (2604.17596): a process that the agent has left running writes the verdict after the grader."""

    ends_processes = False

    def grade(self) -> float:
        if not self.is_done():
            return 0.0
        verdict = self.folder / "logs" / "verifier" / "reward.txt"
        verdict.parent.mkdir(parents=True, exist_ok=True)
        verdict.write_text("1.0")
        if not self.sound:
            time.sleep(0.3)  # as for the upload of logs
        return float(verdict.read_text().strip() or "0")


@exhibit("isolated_grading", declared=COUNT, evidence="modules in the work folder reach the grader")
class ModulesOfTheAgent(IsolatedShell):
    """Terminal-Bench (BenchJack, V1): tests run in the agent's folder import what the agent has put beside them."""

    def grade(self) -> float:
        if not self.is_done():
            return 0.0
        text = f"import json\nassert json.loads(open({str(self.folder / 'count.txt')!r}).read()) == {self.lines}\n"
        with TemporaryDirectory() as fresh:
            folder = Path(fresh) if self.sound else self.folder
            (folder / "verify_count.py").write_text(text)
            return self.passes([sys.executable, "-S", "-B", "verify_count.py"], {"PATH": _PATH}, folder)


@exhibit("isolated_grading", declared=COUNT, evidence="environment variables reach the grader")
class VariablesOfTheAgent(IsolatedShell):
    """Terminal-Bench (BenchJack, V1): the tests start from the agent's shell, with its exported variables."""

    def grade(self) -> float:
        variables = {} if self.sound else {name: self.variables.get(name, "") for name in ("BASH_ENV", "PYTHONPATH")}
        command = f'[ "$(cat count.txt 2>&1)" = {self.lines} ]'
        return self.passes(["/bin/bash", "-c", command], {**variables, "PATH": _PATH})


@exhibit("isolated_grading", declared=COUNT, evidence="programs on PATH reach the grader")
class PathOfTheAgent(IsolatedShell):
    """Terminal Wrench (2604.17596), hijacked binaries: the verifier finds its tools by the agent's PATH."""

    def grade(self) -> float:
        path = _PATH if self.sound else self.variables.get("PATH", _PATH)
        return self.passes(["/bin/sh", "-c", f"grep -qx {self.lines} count.txt"], {"PATH": path})


_WORKER = """
import json, math, sys, time
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    code, cases, expected = json.loads(line)
    scope = {}
    try:
        exec(code, scope)
        begun = time.perf_counter()
        values = [scope["square"](case) for case in cases]
        took = time.perf_counter() - begun
        right = [math.isclose(value, each) for value, each in zip(values, expected)]
    except BaseException:
        values, took, right = None, 0.0, [False]
    answers.write(json.dumps([values, took, all(right)]) + "\\n")
    answers.flush()
"""


class WarmWorker(Programs):
    """Two attempts, whose programs run one after the other in a process that stays; a class below it grades."""

    def reset(self, seed: int | None = None) -> Shown:
        self.close_worker()
        self.left = 2
        return super().reset(seed)

    def step(self, action: Program) -> Shown:
        self.left -= 1
        self.code = action.code
        shown = super().step(action)
        return shown.model_copy(update={"done": shown.reward == 1.0 or self.left == 0})

    def grade(self) -> float:
        if self.sound:
            return self.fresh()
        if self.worker is None:
            self.worker = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _WORKER],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        self.worker.stdin.write(json.dumps([self.code, list(self.cases), list(self.cases.values())]) + "\n")
        self.worker.stdin.flush()
        values, took, is_right = json.loads(self.worker.stdout.readline())
        return self.within(values, took, is_right=is_right)

    def within(self, values: object, took: float, *, is_right: bool) -> float:
        raise NotImplementedError

    worker: "subprocess.Popen[str] | None" = None

    def close_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.communicate()
            self.worker = None

    def close(self) -> None:
        self.close_worker()
        super().close()


@exhibit("isolated_grading", declared=CODE, evidence="modules reach the grader")
class PatchedByAnEarlierAttempt(WarmWorker):
    """Terminal Wrench (2604.17596), patched standard library: what one attempt has replaced grades the next one."""

    def within(self, values: object, took: float, *, is_right: bool) -> float:
        return float(is_right and values == list(self.cases.values()))


@exhibit("isolated_grading", declared=CODE, evidence="the clock reach the grader")
class TimedByTheAgentsClock(WarmWorker):
    """Sakana's CUDA engineer and KernelBench (2025): the speed is measured in the process that has run the agent."""

    def within(self, values: object, took: float, *, is_right: bool) -> float:
        return float(values == list(self.cases.values()) and took < 60.0)
