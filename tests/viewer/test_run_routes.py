"""What the page reads of a run's folder: its state, metrics as they grow, and the best and the worst of a step."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.trace_files import entries, episode, new_file

from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder, is_run
from openenv.records.run_start import RunStart
from openenv.records.scores import Score
from openenv.traces import Conversation
from openenv.train.settings.config import TrainConfig
from openenv.viewer import viewer_app

CALL = {"type": "function", "function": {"name": "walk", "arguments": {"way": "left"}}}
MESSAGES = [
    {"role": "user", "content": "At 0."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "walk", "content": "x" * 5000},
]


def note(number: int, group: int, reward: float, *, recorded: bool = True) -> dict[str, Any]:
    named = {"episode_id": f"e{number}"} if recorded else {}
    return {**named, "group": group, "task": {"seed": group}, "reward": reward, "length": 3, "illegal_actions": 0}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = TrainConfig(environment="catch", output_dir=tmp_path, name="mine", steps=5).make_folder("catch")
    folder.add_start(RunStart.now())
    with new_file(folder.traces) as traces:
        for number in (1, 2, 3):
            traces.add(episode(number, 3), entries(3), [Conversation(f"e{number}", messages=MESSAGES)])
    for step in (1, 2):
        folder.add_metrics({"step": step, "episode/reward": step / 10, "loss": float("nan")})
        notes = [note(1, 0, 0.5), note(9, 0, 0.5, recorded=False), note(2, 0, step), note(4, 1, -1.0), note(3, 1, -1)]
        folder.add_rollouts({"step": step, "environment": "", "episodes": notes})
    return folder


@pytest.fixture
def http(folder: RunFolder) -> TestClient:
    return TestClient(viewer_app(folder.traces, folder.path))


def progress(http: TestClient, after: Any = None) -> Any:
    """Return what came after another answer."""
    query = {name: after[name] for name in ("offset", "mark")} if after else {}
    return http.get("/web/run/progress", params=query).json()


def test_metrics_are_read_as_the_file_grows(http: TestClient, folder: RunFolder) -> None:
    whole = progress(http)
    assert [(row["step"], row["episode/reward"], row["loss"]) for row in whole["rows"]] == [
        (1, 0.1, None),
        (2, 0.2, None),
    ]
    assert (whole["name"], whole["start"], whole["settings"]["steps"]) == ("mine", 0, 5)
    assert [start["versions"].keys() >= {"python"} for start in whole["starts"]] == [True]
    assert whole["times"] == {}
    folder.add_times({"evaluation": 2.5})
    assert progress(http, whole)["times"] == {"evaluation": 2.5}
    assert progress(http, whole)["rows"] == []
    with folder.metrics.open("a") as file:
        file.write('{"step": 3, "lo')
    assert progress(http, whole)["rows"] == []
    with folder.metrics.open("a") as file:
        file.write('ss": 1}\n')
    grown = progress(http, whole)
    assert (grown["start"], grown["rows"]) == (whole["offset"], [{"step": 3, "loss": 1}])
    folder.forget_after(None)
    folder.add_metrics({"step": 1})
    again = progress(http, grown)
    assert (again["start"], again["rows"]) == (0, [{"step": 1}]), "a resumed run: the file is shorter"
    text = folder.metrics.read_text()
    folder.metrics.write_text(text.replace("1", "7") + '{"step": 8}\n')
    anew = progress(http, again)
    assert (anew["start"], anew["rows"]) == (0, [{"step": 7}, {"step": 8}]), "a resumed run: the file is longer again"


def test_warnings_and_the_rule_for_illegal_answers_are_shown(http: TestClient, folder: RunFolder) -> None:
    assert progress(http)["warnings"] == []
    folder.write_warnings(["In 90% of the groups"])
    shown = progress(http)
    assert shown["warnings"] == ["In 90% of the groups"]
    assert shown["illegal_rule"] == "each is played as the environment's own fallback, where it has one"


def test_the_state_is_that_of_the_process(http: TestClient, folder: RunFolder) -> None:
    assert progress(http)["state"] == "interrupted"
    with folder.held():
        assert progress(http)["state"] == "running"
        with folder.starts.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder.report.touch()
    assert progress(http)["state"] == "interrupted", "an interrupted run has a report, too"
    score = Score(0.5, 0.1, 3.0, 0.0, 7, 1, [], low=0.3, high=0.7)
    folder.write_scores({"random player": score, "after training": score})
    ended = progress(http)
    assert ended["state"] == "ended"
    assert ended["scores"]["after training"] == {
        "mean_reward": 0.5,
        "low": 0.3,
        "high": 0.7,
        "episodes": 7,
        "costs": {},
    }


def test_a_run_of_several_environments_ends_with_the_score_of_the_last(tmp_path: Path) -> None:
    both = {name: {"environment": "catch"} for name in ("here", "there")}
    config = TrainConfig.model_validate({"environments": both, "output_dir": tmp_path, "name": "both", "steps": 5})
    folder = config.make_folder("both")
    folder.add_start(RunStart.now())
    folder.report.touch()
    http = TestClient(viewer_app(None, folder.path))
    score = {"mean_reward": 0.5, "standard_error": 0.1, "episodes": 7, "sample": []}
    score |= {"mean_length": 3.0, "illegal_actions": 0.0, "sample_seed": 1}
    scores = {"there: random player": score, "here: after training": score}
    folder.scores.write_text(json.dumps(scores))
    assert progress(http)["state"] == "interrupted"
    assert not folder.has_ended
    folder.scores.write_text(json.dumps({**scores, "there: after training": score}))
    assert progress(http)["state"] == "ended"
    assert folder.has_ended


def test_the_best_and_the_worst_of_a_step_lead_to_their_traces(http: TestClient) -> None:
    found = http.get("/web/run/rollouts", params={"step": 1}).json()
    assert [(group["task"], group["rewards"]) for group in found["groups"]] == [
        ({"seed": 0}, [0.5, 0.5, 1]),
        ({"seed": 1}, [-1, -1]),
    ]
    assert [group["mean_reward"] for group in found["groups"]] == pytest.approx([2 / 3, -1])
    assert (found["groups"][0]["worst"]["episode_id"], found["groups"][0]["worst"]["trace"]) == ("e1", "1-1")
    assert (found["best"]["trace"], found["worst"]["trace"], found["worst"]["reward"]) == ("1-2", "1-3", -1)
    said = found["best"]["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["text"] == "walk(way='left')"
    assert len(said[2]["text"]) == 1000
    assert http.get("/web/run/rollouts").json()["step"] == 2
    assert http.get("/web/run/rollouts", params={"step": 7}).json() == {
        "step": None,
        "groups": [],
        "best": None,
        "worst": None,
    }


def test_a_run_without_traces_or_before_its_first_step_has_a_page(folder: RunFolder) -> None:
    folder.traces.unlink()
    http = TestClient(viewer_app(None, folder.path))
    assert http.get("/", follow_redirects=False).headers["location"] == "/web/run"
    assert http.get("/web/config").json() | {"run": True, "traces": False} == http.get("/web/config").json()
    assert "trace" not in http.get("/web/run/rollouts").json()["best"]
    assert http.get("/web/traces/episodes").status_code == 404
    folder.metrics.unlink()
    folder.rollouts.unlink()
    assert (progress(http)["rows"], progress(http)["offset"]) == ([], 0)
    assert http.get("/web/run/rollouts").json()["step"] is None


def test_what_is_no_run_and_no_query_is_refused(http: TestClient, folder: RunFolder, tmp_path: Path) -> None:
    assert is_run(folder.path)
    assert not is_run(tmp_path)
    with pytest.raises(ConfigurationError, match="a file of traces, or the folder of a training run"):
        viewer_app(None)
    assert http.get("/web/run/progress", params={"offset": -1}).status_code == 422
    assert http.get("/web/run/rollouts", params={"steps": 1}).status_code == 422
    folder.config.write_text("[1")
    answer = http.get("/web/run/progress")
    assert answer.status_code == 404
    assert "config.yaml" in answer.json()["detail"]
    assert http.get("/web/run/progress", headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401


def test_lines_that_have_no_episodes_spoil_no_page(http: TestClient, folder: RunFolder) -> None:
    before = http.get("/web/run/rollouts").json()
    starts = progress(http)["starts"]
    with (folder.path / "rollouts.jsonl").open("a") as file:
        for episodes in (5, [5], [{"group": 1, "task": {}}], [{"group": 1, "task": 5, "reward": 1.0}]):
            file.write(json.dumps({"step": 2, "environment": "", "episodes": episodes}) + "\n")
        file.write('{"step": 2}\n')
    with (folder.path / "starts.jsonl").open("a") as file:
        file.write('{"time": "never"}\n')
    assert http.get("/web/run/rollouts").json() == before
    assert progress(http)["starts"] == starts


@pytest.mark.parametrize("query", [f"progress?offset={'9' * 30}", f"rollouts?step={'9' * 30}", "progress?offset=-1"])
def test_a_number_that_no_file_has_is_an_invalid_query(http: TestClient, query: str) -> None:
    assert http.get(f"/web/run/{query}").status_code == 422


def test_episodes_that_failed_are_in_no_mean_no_best_and_no_worst(tmp_path: Path) -> None:
    folder = TrainConfig(environment="catch", output_dir=tmp_path, name="failing").make_folder("catch")
    note = {"group": 0, "task": {"seed": 0}, "length": 1, "illegal_actions": 0}
    failed = {**note, "error": "the environment failed", "failure": "environment"}
    played = [{**note, "reward": 0.5}, {**failed, "reward": 9.0}, {**failed, "reward": -9.0, "group": 1}]
    folder.add_rollouts({"step": 1, "environment": "", "episodes": played})
    http = TestClient(viewer_app(None, folder.path))
    found = http.get("/web/run/rollouts", params={"step": 1}).json()
    (group,) = found["groups"]
    assert (group["rewards"], group["failed"], group["mean_reward"]) == ([0.5], 1, 0.5)
    assert found["best"]["reward"] == found["worst"]["reward"] == 0.5
