"""What the page reads of an evaluation's folder: whole, under way, of an earlier version, and broken."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.episode_folders import line, write_evaluation, write_lines

from openenv.viewer import Source, source_app

HOSTILE = "<script>window.hacked = 1</script>"

# Results without what came later: samplings, components and an estimate for each task.
EARLIER = {
    "environment": "walk",
    "player": "random player",
    "samples": 1,
    "success_reward": 1.0,
    "mean_reward": {"value": 0.5, "low": None, "high": None},
    "pass_at": {},
    "mean_length": 3.0,
    "illegal_actions": 0.0,
    "tasks": [{"task": {}, "rewards": [0.5], "successes": 0}],
}


def opened(folder: Path) -> TestClient:
    return TestClient(source_app(Source.at(str(folder))))


def read(http: TestClient, path: str, **query: Any) -> Any:
    answer = http.get(f"/web/results/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_evaluation_has_estimates_by_component_and_by_task(tmp_path: Path) -> None:
    http = opened(write_evaluation(tmp_path / "words", {1: [1.0, 1.0], 2: [0.0, 1.0], 3: [0.25, 0.0]}))
    assert http.get("/", follow_redirects=False).headers["location"] == "/web/results"
    summary = read(http, "summary")
    assert (summary["name"], summary["kind"], summary["is_complete"]) == ("words", "evaluation", True)
    assert (summary["player"], summary["environment"], summary["episodes"], summary["tasks"]) == ("mine", "walk", 6, 3)
    assert [(row["kind"], row["name"]) for row in summary["estimates"]] == [
        ("reward", "reward, sampled"),
        ("component", "pace"),
        ("chance", "pass@1"),
    ]
    reward = summary["estimates"][0]
    assert reward["value"] == pytest.approx(3.25 / 6)
    assert reward["low"] < reward["value"] < reward["high"]

    tasks = read(http, "tasks")
    assert [row["task"]["seed"] for row in tasks["rows"]] == [3, 2, 1]
    assert [row["mean_reward"] for row in tasks["rows"]] == [0.125, 0.5, 1.0]
    assert [row["components"]["pace"] for row in tasks["rows"]] == [0.0625, 0.25, 0.5]
    assert tasks["rows"][1]["low"] < 0.5 < tasks["rows"][1]["high"]
    assert [row["successes"] for row in tasks["rows"]] == [0, 1, 2]
    assert (tasks["rows"][1]["best"]["trace"], tasks["rows"][1]["worst"]["trace"]) == ("1-4", "1-3")
    for order, seeds in (("best", [1, 2, 3]), ("spread", [2, 3, 1]), ("played", [1, 2, 3])):
        assert [row["task"]["seed"] for row in read(http, "tasks", order=order)["rows"]] == seeds
    assert [row["number"] for row in read(http, "tasks", order="played", start=1, limit=1)["rows"]] == [1]


def test_the_best_and_the_worst_episode_are_shown_with_what_was_said(tmp_path: Path) -> None:
    http = opened(write_evaluation(tmp_path / "e", {1: [1.0, 0.5], 2: [0.0, 0.25]}, HOSTILE))
    found = read(http, "extremes")
    assert (found["best"]["reward"], found["best"]["trace"], found["worst"]["index"]) == (1.0, "1-1", 2)
    assert found["best"]["messages"] == [
        {"role": "user", "text": HOSTILE},
        {"role": "assistant", "text": "go 0"},
    ]
    of_one = read(http, "extremes", task=1)
    assert (of_one["best"]["reward"], of_one["worst"]["reward"]) == (0.25, 0.0)
    assert read(http, "tasks")["rows"][0]["task"] == {"seed": 2}
    answer = http.get("/web/results/extremes?task=2")
    assert (answer.status_code, answer.json()["detail"]) == (404, "Expected the number of a task from 0 to 1, got 2.")
    assert http.get("/web/results/tasks?order=colour").status_code == 422


def test_a_number_of_a_task_is_the_same_as_text(tmp_path: Path) -> None:
    names = ("seed", "index", "level")
    write_lines(tmp_path / "episodes.jsonl", [line(2 * i, {name: 1}, 1.0) for i, name in enumerate(names)])
    write_lines(tmp_path / "episodes.jsonl", [line(2 * i + 1, {name: "1"}, 1.0) for i, name in enumerate(names)])
    rows = read(opened(tmp_path), "tasks", order="played")["rows"]
    assert [row["task"] for row in rows] == [{"seed": 1}, {"index": 1}, {"level": 1}, {"level": "1"}]


def test_an_evaluation_that_is_under_way_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    folder.mkdir()
    (folder / "settings.json").write_text('{"environment": "walk", "player": "random", "samples": 2}')
    http = opened(folder)
    empty = read(http, "summary")
    assert (empty["is_complete"], empty["tasks"], empty["estimates"]) == (False, 0, [])
    assert read(http, "extremes") == {"best": None, "worst": None}
    write_lines(folder / "episodes.jsonl", [line(0, {"seed": 1}, 1.0)])
    with (folder / "episodes.jsonl").open("a") as file:
        file.write('{"index": 1, "task": {"se')
    assert read(http, "summary")["estimates"] == [{"name": "reward", "kind": "reward", "value": 1.0}]
    with (folder / "episodes.jsonl").open("a") as file:
        file.write('ed": 1}, "reward": 0.5}\n{"index": 2}\nno JSON\n{"index": 3, "task": {}, "reward": NaN}\n')
    summary = read(http, "summary")
    assert (summary["episodes"], summary["unreadable"], summary["estimates"][0]["value"]) == (2, 3, 0.75)
    write_lines(folder / "left_out.jsonl", [{"index": 4, "task": {"seed": 1}, "reward": 0, "reason": "it failed"}])
    summary = read(http, "summary")
    assert (summary["left_out"], summary["first_left_out"]) == (1, "it failed")
    (row,) = read(http, "tasks")["rows"]
    assert (row["left_out"], row["rewards"], row["low"], row["best"]["trace"]) == (1, [1.0, 0.5], None, None)
    assert row["successes"] is None, "the results say what a success is"


def test_successes_are_counted_among_all_attempts(tmp_path: Path) -> None:
    write_lines(tmp_path / "episodes.jsonl", [line(number, {"seed": 1}, number % 2) for number in range(402)])
    (tmp_path / "results.json").write_text(json.dumps(EARLIER))
    (row,) = read(opened(tmp_path), "tasks")["rows"]
    assert (row["successes"], row["episodes"], len(row["rewards"])) == (201, 402, 200)


def test_rounding_fails_no_attempt_and_hides_no_trace(tmp_path: Path) -> None:
    rounded = 0.6 + 0.3 + 0.1
    http = opened(write_evaluation(tmp_path / "e", {1: [rounded, 0.5], 2: [rounded, rounded]}))
    rows = read(http, "tasks", order="played")["rows"]
    assert [row["successes"] for row in rows] == [1, 2]
    assert [row["best"]["trace"] for row in rows] == ["1-1", "1-3"]


def test_collected_episodes_and_those_of_an_earlier_version_are_shown(tmp_path: Path) -> None:
    write_lines(tmp_path / "episodes.jsonl", [line(0, {}, 1.0), line(1, {"word": "\ud83d"}, 0.0)])
    http = opened(tmp_path)
    summary = read(http, "summary")
    assert (summary["kind"], summary["unreadable"], summary["tasks"]) == ("collection", 0, 2)
    assert [row["task"] for row in read(http, "tasks")["rows"]] == [{"word": "?"}, {}]
    (tmp_path / "results.json").write_text(json.dumps(EARLIER))
    summary = read(http, "summary")
    assert (summary["kind"], summary["player"], summary["is_complete"]) == ("evaluation", "random player", True)
    assert summary["estimates"] == [{"kind": "reward", "name": "reward", "value": 0.5, "low": None, "high": None}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"environment": "walk"', "results.json: is not valid JSON; mend this"),
        ("[]", "expected the results of openenv eval, but the file is not as they have it"),
        (json.dumps({**EARLIER, "mean_reward": 1}), "but mean_reward is not as they have it"),
    ],
)
def test_results_that_cannot_be_read_hide_no_episode(tmp_path: Path, content: str, said: str) -> None:
    folder = write_evaluation(tmp_path / "e", {1: [1.0]})
    (folder / "results.json").write_text(content)
    (folder / "traces.db").write_text("no database at all, but text")
    http = opened(folder)
    summary = read(http, "summary")
    assert said in summary["problem"]
    assert (summary["is_complete"], summary["episodes"]) == (False, 1)
    assert read(http, "tasks")["rows"][0]["best"]["trace"] is None
    assert read(http, "extremes")["best"]["messages"][0]["text"] == "At 0."
    assert "can't be used" in http.get("/web/traces/episodes").json()["detail"]


def test_answers_are_counted_and_warned_of_while_they_come(tmp_path: Path) -> None:
    settings = {"environment": "walk", "model": "mine", "illegal_answers": "fallback", "fallback": "stay", "samples": 1}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    texts = {"fly": 1}
    write_lines(tmp_path / "episodes.jsonl", [line(0, {"seed": 1}, 1.0, illegal_texts=texts, cut_answers=1)])
    http = opened(tmp_path)
    summary = read(http, "summary")
    assert summary["illegal_rule"] == "each is played as 'stay'"
    assert (summary["answers"]["illegal"], summary["answers"]["cut"], summary["answers"]["illegal_texts"]) == (
        1,
        1,
        texts,
    )
    assert [warning[:22] for warning in summary["warnings"]] == ["33% of the answers wer"] * 2
    write_lines(
        tmp_path / "episodes.jsonl", [line(1, {"seed": 2}, 0.0, length=0, illegal_actions=0, answers_without_call=1)]
    )
    assert read(http, "summary")["warnings"][-1].startswith("In 50% of the episodes the model called no tool")


def test_an_earlier_version_has_noted_no_rule(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"environment": "walk", "model": "mine"}))
    write_lines(tmp_path / "episodes.jsonl", [line(0, {"seed": 1}, 1.0)])
    summary = read(opened(tmp_path), "summary")
    assert summary["illegal_rule"] is None
    assert summary["warnings"][0].startswith("33% of the answers were no legal action: try")
