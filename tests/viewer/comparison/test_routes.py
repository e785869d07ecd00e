"""What the page reads of a run, an evaluation and a file of traces beside each other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.episode_folders import write_evaluation
from tests.support.trace_files import entries, episode, new_file

from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.records.scores import Score
from openenv.train.settings.config import TrainConfig
from openenv.viewer import Source, comparison_app


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that has played the task of seed 1 in two steps, and one of seed 9."""
    folder = TrainConfig(environment="walk", output_dir=tmp_path, name="mine").make_folder("walk")
    folder.add_start(RunStart.now())
    for step, rewards in ((1, (0.0, 0.0)), (2, (0.5, 0.25))):
        parts = {"episode/reward_components/pace": step, "episode/reward_components/reward": 7}
        folder.add_metrics({"step": step, "episode/reward": step / 10, **parts})
        notes = [
            {"episode_id": f"e{step}{number}", "group": 0, "task": {"seed": 1}, "reward": reward, "length": 3}
            for number, reward in enumerate(rewards)
        ]
        folder.add_rollouts({"step": step, "environment": "", "episodes": notes})
    folder.add_rollouts({"step": 2, "environment": "", "episodes": [{"group": 1, "task": {"seed": 9}, "reward": 1.0}]})
    with new_file(folder.traces) as traces:
        for name in ("e20", "e21"):
            traces.add(replace(episode(1, 3), episode_id=name), entries(3))
    return folder


@pytest.fixture
def http(run: RunFolder, tmp_path: Path) -> TestClient:
    evaluation = write_evaluation(tmp_path / "words", {1: [1.0, 1.0], 2: [0.0, 1.0]})
    file = tmp_path / "own.db"
    with new_file(file) as traces:
        for seed, reward in ((1, 0.0), (1, 0.5), (2, 0.5), (3, None)):
            named = replace(episode(seed, 3, "run" if seed == 1 else "walk"), seed=str(seed), reward=reward)
            traces.add(named, entries(3, turn_at=2))
    return TestClient(comparison_app([Source.at(str(path)) for path in (run.path, evaluation, file)]))


def test_each_source_has_its_scores(http: TestClient) -> None:
    assert http.get("/", follow_redirects=False).headers["location"] == "/web/compare"
    names = ["mine", "words", http.get("/web/config").json()["compare"][2]]
    found = http.get("/web/compare/overview").json()
    assert [each["name"] for each in found] == names
    assert [each["view"] for each in found] == ["run", "results", "traces"]
    assert [each["state"] for each in found] == ["interrupted", "complete", "4 episodes"]
    scores = [{(row["kind"], row["name"]): row["value"] for row in each["scores"]} for each in found]
    reward, pace = ("reward", "reward"), ("component", "pace")
    assert scores[0] == {reward: pytest.approx(0.15), pace: 1.5, ("component", "reward"): 7}
    assert scores[1] == {reward: 0.75, pace: 0.375, ("chance", "pass@1"): 0.5}
    assert scores[2] == {reward: pytest.approx(1 / 3), pace: 1.5}, "an episode without a reward has no weight"


def test_a_player_has_the_interval_that_its_run_has(http: TestClient, run: RunFolder) -> None:
    earlier = Score(0.9, 0.1, 3.0, 0.0, 3, None, [])
    run.write_scores({"random player": replace(earlier, low=0.47, high=1.0), "earlier": earlier})
    scores = http.get("/web/compare/overview").json()[0]["scores"]
    players = [row for row in scores if row["kind"] == "player"]
    assert players == [
        {"name": "random player", "kind": "player", "value": 0.9, "low": 0.47, "high": 1.0},
        {"name": "earlier", "kind": "player", "value": 0.9},
    ]


def test_the_tasks_that_differ_most_come_first_with_their_episodes(http: TestClient) -> None:
    found = http.get("/web/compare/tasks").json()
    assert (found["common"], found["tasks"]) == (2, [2, 2, 2])
    first, second = found["rows"]
    assert (first["task"], first["difference"]) == ({"seed": 1}, 0.75)
    assert [cell["mean_reward"] for cell in first["cells"]] == [0.375, 1.0, 0.25]
    assert first["ids"] == ["1:1-2", "2:1-1", "3:1-1"], "the best where the mean is highest, the worst elsewhere"
    assert (second["task"], second["cells"][0]) == ({"seed": 2}, None)
    assert http.get("/web/compare/tasks?limit=1").json()["rows"] == [first]
    assert http.get("/web/compare/tasks?start=1&limit=500").json() == {**found, "rows": [second]}
    assert http.get("/web/compare/tasks?limit=0").status_code == 422


def test_episodes_of_two_files_are_compared(http: TestClient) -> None:
    difference = http.get("/web/compare/difference/1:1-1/3:1-1")
    assert difference.json() == {"number": 2, "parts": ["request"]}
    assert http.get("/web/compare/difference/1:1-1/1:1-2").json() is None
    for wrong in ("4:1-1", "1-1", "x:1-1", "2:9-9"):
        answer = http.get(f"/web/compare/difference/1:1-1/{wrong}")
        assert answer.status_code == 404
        assert "Expected the" in answer.json()["detail"]


def test_each_source_is_shown_by_itself_below_its_number(http: TestClient) -> None:
    assert http.get("/2/", follow_redirects=False).headers["location"] == "/2/web/results"
    assert http.get("/1/web/run/progress").json()["name"] == "mine"
    assert http.get("/2/web/results/summary").json()["name"] == "words"
    assert len(http.get("/3/web/traces/episodes").json()) == 4
    assert http.get("/3/web/config").json()["beside"] is True
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    for path, status in (("/2/web/results", 200), ("/2/web/static/app.js", 200), ("/2/web/results/summary", 401)):
        assert http.get(path, headers=elsewhere).status_code == status, path


def test_what_breaks_while_it_is_shown_is_said_beside_the_others(
    http: TestClient, run: RunFolder, tmp_path: Path
) -> None:
    run.config.write_text("[1")
    (tmp_path / "own.db").write_text("no database at all, but text")
    first, second, third = http.get("/web/compare/overview").json()
    assert "config.yaml" in first["problem"]
    assert second["problem"] is None
    assert "can't be used" in third["problem"]
    tasks = http.get("/web/compare/tasks").json()
    assert (tasks["common"], tasks["tasks"], tasks["rows"][0]["cells"][2]) == (1, [2, 2, 0], None)


def test_two_to_four_are_compared(run: RunFolder) -> None:
    source = Source.at(str(run.path))
    wrong: Any
    for wrong in ([source], [source] * 5):
        with pytest.raises(ConfigurationError, match="Expected 2 to 4 paths to compare"):
            comparison_app(wrong)
