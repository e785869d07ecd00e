"""Episodes in the files of other programs, read by those programs, and back."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log
from tests.support.servers import PROGRAMS
from tests.support.services.harbor_models import check_trajectories
from tests.support.stored_episodes import CALLS, entries, episode, of_a_failure, of_a_model, of_an_environment

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Conversation, EpisodeRecord, Filter, TraceFile

RECORDS = (of_an_environment(), of_a_model(), of_a_failure())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "traces.db"
    with traces.open(path, create=True) as opened:
        for record in RECORDS:
            name = opened.add(record.episode, record.entries, record.conversations)
            for score in record.scores:
                opened.add_score(name, score)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Iterator[TraceFile]:
    with traces.open(tmp_path / "other.db", create=True) as opened:
        yield opened


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_name(records: list[EpisodeRecord]) -> list[EpisodeRecord]:
    return sorted((replace(each, episode=replace(each.episode, id="")) for each in records), key=str)


def test_messages_have_what_a_trainer_takes(file: Path, tmp_path: Path) -> None:
    assert traces.export(file, tmp_path / "rows.jsonl", "messages") == 3
    failed, model, alone = rows(tmp_path / "rows.jsonl")
    assert model["messages"][1]["tool_calls"] == CALLS
    assert (model["model"], model["completion_ids"], model["env_mask"]) == ("tiny", [7, 8, 9], [1, 1, 0])
    assert alone["messages"] == [
        {"role": "user", "content": "ball 3\npng [4000 characters left out]"},
        {"role": "assistant", "content": '{"move": "left"}'},
    ]
    assert (alone["components"], alone["scores"]) == ({"right": 1.0, "short": 0.5}, {"brief": 0.25})
    assert (failed["reward"], failed["messages"][-1]["role"]) == (None, "assistant")


def test_filters_choose_what_is_exported(file: Path, tmp_path: Path) -> None:
    assert traces.export(file, tmp_path / "a.jsonl", "messages", Filter(environment="wordle")) == 1
    assert traces.export(file, tmp_path / "b.jsonl", "jsonl", limit=2) == 2
    assert [row["episode"]["episode_id"] for row in rows(tmp_path / "b.jsonl")] == ["e2", "e1"]


@pytest.mark.parametrize(("to", "name"), [("jsonl", "all.jsonl"), ("atif", "folder"), ("inspect", "log.eval")])
def test_what_is_exported_comes_back_as_it_was(
    file: Path, other: TraceFile, tmp_path: Path, to: traces.ExportFormat, name: str
) -> None:
    assert traces.export(file, tmp_path / name, to) == 3
    assert len(traces.import_episodes(other, tmp_path / name)) == 3
    with traces.open(file) as opened:
        assert by_name(list(other.records())) == by_name(list(opened.records()))
    traces.import_episodes(other, tmp_path / name)
    assert [len(record.conversations) for record in other.records(Filter(environment="wordle"))] == [1, 1]


def test_harbors_models_accept_the_trajectories(file: Path, tmp_path: Path) -> None:
    traces.export(file, tmp_path / "atif", "atif")
    files = sorted((tmp_path / "atif").iterdir())
    assert [path.name for path in files] == ["1-1.json", "1-2.json", "1-3.json"]
    check_trajectories(files)
    alone, model, _ = (json.loads(path.read_text()) for path in files)
    assert [step["source"] for step in alone["steps"]] == ["user", "agent"]
    assert alone["steps"][1]["llm_call_count"] == 0
    assert model["steps"][1]["metrics"] == {"completion_token_ids": [7, 8], "logprobs": [-0.5, -0.25]}
    assert model["final_metrics"]["total_cost_usd"] == 0.5


def test_inspect_reads_the_log(file: Path, tmp_path: Path) -> None:
    traces.export(file, tmp_path / "log.eval", "inspect")
    log = read_eval_log(str(tmp_path / "log.eval"))
    assert (log.status, log.eval.dataset.samples) == ("success", 3)
    assert log.results is not None
    assert log.results.scores[0].metrics["mean"].value == 1.0
    assert log.samples is not None
    (model,) = [sample for sample in log.samples if sample.id == "1-2"]
    assert [message.role for message in model.messages] == ["user", "assistant", "tool"]
    assert model.scores is not None
    assert model.scores["reward"].value == 1.0
    headers = read_eval_log(str(tmp_path / "log.eval"), header_only=True)
    assert headers.results == log.results


def test_a_trajectory_of_another_agent_is_imported(other: TraceFile, tmp_path: Path) -> None:
    call = {"tool_call_id": "a", "function_name": "ls", "arguments": {"path": "."}}
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}}
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "timestamp": "2026-11-24T08:00:00Z", "source": "user", "message": "List the files."},
        {
            "step_id": 2,
            "timestamp": "2026-11-24T08:00:02Z",
            "source": "agent",
            "message": "",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "a", "content": [{"type": "text", "text": "x"}, picture]}]},
        },
        {"step_id": 3, "source": "agent", "message": "x is there."},
    ]
    agent = {"name": "coder", "version": "2", "model_name": "large"}
    document = {"schema_version": "ATIF-v1.5", "session_id": "s", "agent": agent, "steps": steps}
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document))
    check_trajectories([path])
    (name,) = traces.import_episodes(other, path)
    record = other.record(name)
    assert (record.episode.steps, record.episode.environment, record.episode.transport) == (2, "atif", "import")
    assert record.conversation is not None
    assert (record.conversation.model, record.conversation.messages[2]["content"]) == ("large", "x\n[image: x.png]")
    assert record.entries[1].request["tool_calls"][0]["function"]["name"] == "ls"
    assert other.episode(name).ended_at == record.episode.started_at + 2.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that Inspect has written. It runs in a process of its own, since it leaves streams open."""
    folder = tmp_path_factory.mktemp("inspect")
    command = [sys.executable, str(PROGRAMS / "inspect_eval.py"), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (found,) = folder.glob("*.eval")
    return found


def test_a_log_that_inspect_has_written_is_imported(other: TraceFile, log: Path) -> None:
    assert len(traces.import_episodes(other, log)) == 4
    records = {record.episode.index: record for record in other.records()}
    picture, wrong, endless, failed = (records[name] for name in ("picture", "wrong", "endless", "failed"))
    assert {record.episode.environment for record in records.values()} == {"inspect"}
    assert [record.episode.reward for record in (picture, wrong, failed)] == [1.0, 0.0, None]
    assert [record.episode.steps for record in (picture, wrong, failed)] == [3, 3, 0]
    assert picture.episode.ended_at is not None
    assert picture.episode.started_at <= picture.episode.ended_at

    assert picture.conversation is not None
    first, refused, said = (picture.conversation.messages[number] for number in (0, 2, 5))
    assert first["content"] == "The root of 9?\n[image]"
    assert refused["content"] == "Error: It has no root."
    assert (said["content"], said["reasoning_content"]) == ("It is 3.", "Three times three.")
    assert picture.conversation.model == "mockllm/model"
    assert (picture.conversation.input_tokens, picture.conversation.output_tokens) == (15, 6)
    call = picture.entries[2].request["tool_calls"][0]["function"]
    assert call == {"name": "root", "arguments": {"number": 9}}
    assert picture.entries[2].observation["messages"][0]["content"] == "3"

    extras = [record.conversation.extra for record in (picture, endless, failed) if record.conversation is not None]
    assert [(extra["epoch"], extra["target"]) for extra in extras] == [(1, "3")] * 3
    assert [extra.get("limit") for extra in extras] == [None, "message", None]
    assert "The model is out of order." in extras[2]["error"]
    assert extras[0]["scores"]["includes"]["value"] == "C"


def test_an_output_that_exists_is_not_written_over(file: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for to in traces.EXPORT_FORMATS:
        with pytest.raises(ConfigurationError, match="taken exists"):
            traces.export(file, taken, to)
    assert taken.read_text() == "mine"


def test_an_export_that_fails_leaves_nothing(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="that pass the filter, found none"):
        traces.export(file, tmp_path / "x.jsonl", "messages", Filter(environment="none"))
    with pytest.raises(ConfigurationError, match="that pass the filter, found none"):
        traces.export(file, tmp_path / "x.parquet", "parquet", Filter(environment="none"))
    with pytest.raises(ConfigurationError, match="can't be written"):
        traces.export(file, tmp_path / "no" / "such" / "folder.jsonl", "messages")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{}", "Expected a trajectory of ATIF 1"),
        ("x.json", "{", "Expected a trajectory of ATIF in .*: is not valid JSON"),
        ("x.json", '{"schema_version": "ATIF-v1.8", "agent": {}, "steps": 3}', "not as ATIF has it"),
        ("x.eval", "no zip", "to be a log of Inspect's"),
        ("x.jsonl", '{"episode": {}}', "Expected line 1 of"),
    ],
)
def test_what_can_not_be_imported_is_said(
    other: TraceFile, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        traces.import_episodes(other, tmp_path / name)
    with pytest.raises(ConfigurationError, match="found none"):
        traces.import_episodes(other, tmp_path / "nothing")
    assert other.count() == 0


def test_labels_choose_what_is_exported_and_come_back(other: TraceFile, tmp_path: Path) -> None:
    record = of_a_model()
    for number, label in enumerate(["good", "bad", None]):
        name = other.add(replace(record.episode, seed="1", reward=1.0), record.entries, record.conversations)
        other.label(name, label, f"note {number}")
    assert traces.export(other.name, tmp_path / "good.jsonl", "messages", Filter(label="good")) == 1
    assert [row["label"] for row in rows(tmp_path / "good.jsonl")] == ["good"]
    assert traces.export(other.name, tmp_path / "all.jsonl", "jsonl") == 3
    with traces.open(tmp_path / "again.db", create=True) as again:
        traces.import_episodes(again, tmp_path / "all.jsonl")
        kept = {(found.label, found.note) for found in again.episodes()}
    assert kept == {("good", "note 0"), ("bad", "note 1"), (None, "note 2")}


def test_preferences_are_what_a_trainer_of_pairs_takes(other: TraceFile, tmp_path: Path) -> None:
    for number, (text, label) in enumerate([("left", "bad"), ("right", "good")]):
        messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": text}]
        written = Conversation(f"e{number}", messages=messages)
        other.add(episode(number, seed="1", reward=0.0, label=label), entries(), [written])
    assert traces.export(other.name, tmp_path / "pairs.jsonl", "preferences") == 1
    (pair,) = rows(tmp_path / "pairs.jsonl")
    assert (pair["prompt"], pair["chosen"], pair["rejected"]) == (
        [{"role": "user", "content": "Go."}],
        [{"role": "assistant", "content": "right"}],
        [{"role": "assistant", "content": "left"}],
    )
    with pytest.raises(ConfigurationError, match=r"one labelled good or with more reward"):
        traces.export(other.name, tmp_path / "none.jsonl", "preferences", Filter(label="good"))
    assert not (tmp_path / "none.jsonl").exists()
