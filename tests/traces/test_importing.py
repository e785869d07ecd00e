"""Import of files that strangers wrote: what can't be stored or shown is refused, with the file, the line and why."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored_episodes import of_a_model, of_an_environment

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.traces import EpisodeRecord, TraceFile
from openenv.traces.formats.atif import trajectory_of


@pytest.fixture
def file(tmp_path: Path) -> Iterator[TraceFile]:
    with traces.open(tmp_path / "traces.db", create=True) as opened:
        yield opened


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The fields of an episode with another value somewhere."""
    fields = asdict(of_a_model())
    parent: Any = fields
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = value
    return fields


def lines_of(folder: Path, *fields: dict[str, Any]) -> Path:
    path = folder / "episodes.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in fields))
    return path


IMPOSSIBLE = [
    (("episode", "started_at"), 1e300),
    (("episode", "started_at"), float("nan")),
    (("episode", "started_at"), 1e12),
    (("episode", "started_at"), -1.0),
    (("episode", "ended_at"), float("inf")),
    (("episode", "steps"), 10**30),
    (("episode", "steps"), -1),
    (("episode", "environment"), None),
    (("episode", "environment"), ["catch"]),
    (("episode", "ending"), None),
    (("episode", "reward"), "much"),
    (("episode", "more"), 1),
    (("entries", 0, "at"), "noon"),
    (("entries", 0, "at"), 1e300),
    (("entries", 0, "answer"), 5),
    (("entries",), 5),
    (("conversations", 0, "messages"), [{"content": "no role"}]),
    (("conversations", 0, "messages"), [{"role": "assistant", "tool_calls": [{"id": 1}]}]),
    (("conversations", 0, "logprobs"), ["x"]),
    (("scores",), [{"name": "a", "at": 1e300, "reward": 1.0}]),
]


@pytest.mark.parametrize(("path", "value"), IMPOSSIBLE)
def test_an_episode_that_can_not_be_is_refused_with_its_line(
    file: TraceFile, tmp_path: Path, path: tuple[str | int, ...], value: Any
) -> None:
    source = lines_of(tmp_path, asdict(of_an_environment()), changed(path, value))
    with pytest.raises(ConfigurationError, match=r"line 2 of .*episodes\.jsonl .*" + ".*".join(map(str, path[:2]))):
        traces.import_episodes(file, source)
    assert [episode.environment for episode in file.episodes()] == ["counter"]


def test_an_impossible_time_is_refused_in_a_trajectory(file: TraceFile, tmp_path: Path) -> None:
    record = of_an_environment()
    trajectory = trajectory_of(record)
    trajectory["extra"]["openenv"]["episode"]["started_at"] = 1e300
    (tmp_path / "own.json").write_text(json.dumps(trajectory))
    with pytest.raises(ConfigurationError, match=r"own\.json.*episode\.started_at"):
        traces.import_episodes(file, tmp_path / "own.json")
    del trajectory["extra"]
    trajectory["agent"]["model_name"] = 5
    (tmp_path / "foreign.json").write_text(json.dumps(trajectory))
    with pytest.raises(ConfigurationError, match=r"foreign\.json.*conversations\.0\.model"):
        traces.import_episodes(file, tmp_path / "foreign.json")
    assert file.count() == 0


@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"episode": ' * 50_000, b'"\\ud800"', b"9" * 5_000, b"nothing", b"\xff"]
)
def test_lines_of_no_episode_are_refused(file: TraceFile, tmp_path: Path, line: bytes) -> None:
    (tmp_path / "lines.jsonl").write_bytes(line + b"\n")
    with pytest.raises(ConfigurationError, match=r"Expected line 1 of .*lines\.jsonl"):
        traces.import_episodes(file, tmp_path / "lines.jsonl")


@pytest.mark.parametrize("name", ["pipe.jsonl", "pipe.json"])
def test_a_pipe_is_refused_at_once(file: TraceFile, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigurationError, match="no regular file"):
        traces.import_episodes(file, tmp_path / name)


def test_half_of_a_surrogate_pair_is_replaced_in_a_name_and_refused_in_an_answer(file: TraceFile) -> None:
    record = of_an_environment()
    file.add(replace(record.episode, environment="half\ud800"), record.entries)
    with pytest.raises(ConfigurationError, match="The episode can't be stored"):
        file.add(record.episode, [replace(record.entries[0], request={"text": "\ud800"})])
    assert [episode.environment for episode in file.episodes()] == ["half?"]


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.level("files")
@given(st.sampled_from([path for path, _ in IMPOSSIBLE]), values)
def test_what_is_not_refused_can_be_stored_and_shown(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[str | int, ...], value: Any
) -> None:
    try:
        record = EpisodeRecord.of_fields(changed(path, value))
    except ValueError:
        return
    with traces.open(tmp_path_factory.mktemp("traces") / "traces.db", create=True) as opened:
        name = opened.add(record.episode, record.entries, record.conversations)
        shown = opened.record(name)
        assert shown.episode.ending != "unreadable"
        trajectory_of(shown)
