"""The planned episode is played again on the running subject, and a difference is named by its field."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support import validated
from tests.support.servers import RunningServer

from openenv import Action, Environment, Observation, State, TaskSet, create_app
from openenv.validation.graders import Subject
from openenv.validation.graders.runtime import (
    EpisodeDeterminismGrader,
    EpisodeIsolationGrader,
    SeedControlGrader,
    TaskDeclarationGrader,
    ToolDeclarationGrader,
)
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan
from openenv.validation.types import CheckStatus

_PLAN = {
    "plan_schema_version": "1",
    "reset": {"episode_id": "probe", "seed": 7},
    "actions": [{"amount": number} for number in range(1, 30)],
}
_GRADERS = (SeedControlGrader, EpisodeDeterminismGrader, EpisodeIsolationGrader)


class Add(Action):
    amount: int


class Total(Observation):
    total: float


class Summing(Environment[Add, Total, State]):
    """Sums, and adds a number that is drawn in reset from the seed."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._total = 0.0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        self._state = State(episode_id=episode_id)
        self._total = self.draw(seed)
        return Total(total=self._total)

    def draw(self, seed: int | None) -> float:
        return random.Random(seed).random()

    def step(self, action: Add) -> Total:
        self._state.step_count += 1
        self._total += action.amount
        return Total(total=self._total, reward=0.5)

    @property
    def state(self) -> State:
        return self._state


class Unseeded(Summing):
    def draw(self, seed: int | None) -> float:
        return random.Random().random()


class Drifting(Summing):
    def step(self, action: Add) -> Total:
        self._total += random.Random().random()
        return super().step(action)


class Shared(Summing):
    last_seed: ClassVar[int | None] = None

    def draw(self, seed: int | None) -> float:
        Shared.last_seed = seed
        return 0.0

    def step(self, action: Add) -> Total:
        self._total += 1000 * (Shared.last_seed or 0)
        return super().step(action)


class Tasked(Summing):
    tasks = TaskSet([{"split": "train", "goal": 1}, {"split": "train", "goal": 2}])


class _Running:
    """Running subject of a server in this process."""

    def __init__(self, url: str) -> None:
        self.base_url = url


@contextmanager
def subject(folder: Path, environment: type[Summing], sessions: int = 4, **changes: Any) -> Iterator[Subject]:
    """Serve an environment, and yield it as a subject with evidence."""
    (folder / "validation").mkdir()
    (folder / "validation" / "runtime.json").write_text(json.dumps(_PLAN))
    with RunningServer(create_app(environment, Add, Total, max_concurrent_envs=sessions)) as server:
        plan = load_runtime_plan(folder, ExecutionDeclaration())
        evidence = collect_runtime_evidence(server.url, plan, episode_timeout_s=60)
        running: Any = _Running(server.url)
        yield Subject(folder, validated.manifest(**changes), None, running, folder, evidence)


@pytest.mark.parametrize(
    ("environment", "failing", "text"),
    [
        (Summing, (), ""),
        (Unseeded, (SeedControlGrader, EpisodeDeterminismGrader), "total of the reset: "),
        (Drifting, (EpisodeDeterminismGrader,), "observation.total of step 1: "),
    ],
)
def test_difference_of_a_further_session_is_named(
    tmp_path: Path, environment: type[Summing], failing: tuple[type, ...], text: str
) -> None:
    with subject(tmp_path, environment) as served:
        for grader in (SeedControlGrader, EpisodeDeterminismGrader):
            result = grader().run(served)
            assert result.status is (CheckStatus.FAIL if grader in failing else CheckStatus.PASS), result
            if grader in failing:
                assert text in result.evidence[0]


def test_state_that_sessions_share_is_found(tmp_path: Path) -> None:
    with subject(tmp_path, Shared) as served:
        found = [EpisodeIsolationGrader().run(served) for _ in range(3)]
    assert CheckStatus.FAIL in {result.status for result in found}, found


def test_sound_episode_is_the_same_beside_another(tmp_path: Path) -> None:
    with subject(tmp_path, Summing) as served:
        assert EpisodeIsolationGrader().run(served).status is CheckStatus.PASS


def test_server_of_a_single_session_is_skipped(tmp_path: Path) -> None:
    with subject(tmp_path, Summing, sessions=1) as served:
        result = EpisodeIsolationGrader().run(served)
    assert result.status in (CheckStatus.SKIP, CheckStatus.PASS)  # the sessions may come one after the other


@pytest.mark.parametrize("grader", _GRADERS)
def test_subject_that_does_not_run_is_skipped(grader: Any) -> None:
    result = grader().run(validated.subject(validated.whole_episode()))
    assert (result.status, result.evidence) == (CheckStatus.SKIP, ["the subject does not run"])


def test_declared_tasks_are_counted(tmp_path: Path) -> None:
    declared = {**validated.MANIFEST["capabilities"], "declared_task_count": {"train": 2, "test": 5}}
    with subject(tmp_path, Tasked, capabilities=declared) as served:
        result = TaskDeclarationGrader().run(served)
    assert (result.status, len(result.evidence)) == (CheckStatus.FAIL, 1)
    assert result.evidence[0].startswith("test: 5 tasks are declared, and the server")


def test_declared_tools_are_compared(tmp_path: Path) -> None:
    declared = {**validated.MANIFEST["capabilities"], "declared_tools": ["divide"]}
    with subject(tmp_path, Summing, capabilities=declared) as served:
        result = ToolDeclarationGrader().run(served)
    assert result.evidence[0] == "divide is declared, and the server has no such tool"
    assert all(line.endswith("is a tool that is not declared") for line in result.evidence[1:])
