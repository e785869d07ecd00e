"""Work folders that commands change, graded by what is there at the end."""

import subprocess
from pathlib import Path

from tests.validation.museum.exhibit import Run, Shell, Shown, Submit, exhibit


@exhibit("probe_tamper", evidence="reward's file")
class RewardFileInTheFolder(Shell):
    """Terminal-Bench-like tasks (BenchJack, V1): the reward is read from a file that the agent may write, too."""

    def grade(self) -> float:
        path = self.folder / "logs" / "verifier" / "reward.txt"
        return float(path.read_text()) if not self.sound and path.is_file() else float(self.is_done())


class Verified(Shell):
    """A folder that a program verifies."""

    def passes(self, command: list[str], path: str) -> float:
        status = subprocess.run(
            command, cwd=self.folder, env={"PATH": path}, timeout=60, check=False, stderr=subprocess.DEVNULL
        ).returncode
        if status < 0:
            raise RuntimeError(f"the verifier was killed by signal {-status}")
        return float(status == 0)


@exhibit("probe_tamper", evidence="replace the tests")
class TestsOfTheAgent(Verified):
    """SWE-Lancer (ABC): the tests lie where the agent can update them, and its own pass."""

    def prepare(self) -> None:
        if not self.sound:
            (self.folder / "tests").mkdir()
            (self.folder / "tests" / "test.sh").write_text(f'[ "$(cat count.txt)" = {self.lines} ] || exit 3\n')

    def grade(self) -> float:
        if self.sound:
            return float(self.is_done())
        return self.passes(["/bin/sh", "tests/test.sh"], "/usr/bin:/bin")


@exhibit("probe_tamper", evidence="false programs")
class ToolsOfTheAgent(Verified):
    """Terminal-Bench (BenchJack, V7; Terminal Wrench): the verifier's tool is the one that the agent put there."""

    def grade(self) -> float:
        if self.sound:
            return float(self.is_done())
        path = f"{self.folder}/bin:/usr/bin:/bin"
        command = f"grep -qx {self.lines} count.txt"
        return self.passes(["/bin/sh", "-c", command], path)


@exhibit("probe_nothing", evidence="does nothing")
class StatusOfTheLastCommand(Shell):
    """Harbor tasks whose verifier takes the status of the last command: a command that does nothing has status 0."""

    def reset(self, seed: int | None = None) -> Shown:
        self.status: int | None = None
        return super().reset(seed)

    def output(self, command: str) -> str:
        if not self.sound and command == "true":
            self.status = 0
        return super().output(command)

    def grade(self) -> float:
        return 1.0 if self.status == 0 else float(self.is_done())


@exhibit("floor_gap", evidence="right after the reset")
class UntouchedFilesCount(Shell):
    """OSWorld and SWE-bench (issue 24): conditions that hold before any work give a part of the reward."""

    def grade(self) -> float:
        kept = len((self.folder / "data.txt").read_text().splitlines()) == self.lines
        conditions = [self.is_done()] if self.sound else [self.is_done(), kept]
        return sum(conditions) / len(conditions)


@exhibit("floor_gap", evidence="right after the reset")
class InfeasibleByDefault(Shell):
    """OSWorld (ABC) and tau-bench: a task whose right result is that nothing changed is done by doing nothing."""

    def grade(self) -> float:
        return float(
            self.is_done()
            or (not self.sound and not (self.folder / "count.txt").exists() and len(list(self.folder.iterdir())) == 1)
        )


@exhibit("verifier_portability", evidence="working folder")
class RelativePath(Shell):
    """Verifiers that read by a path relative to where the author started them (Terminal-Bench's task reviews)."""

    def grade(self) -> float:
        if not self.sound and not Path("pyproject.toml").exists():
            raise FileNotFoundError("pyproject.toml")
        return float(self.is_done())


@exhibit("verdict_form", evidence="without any reward")
class NoRewardAtTheEnd(Shell):
    """OpenEnv's textarena and others in 2025: the last observation has no reward, and trainers read it as 0."""

    def step(self, action: Run | Submit) -> Shown:
        shown = super().step(action)
        return shown if self.sound else shown.model_copy(update={"reward": None})
