"""Traces where something breaks: the file is locked, removed, not a file of traces, or the server is killed."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.conftest import Serve
from tests.support.environments.common import CounterEnvironment
from tests.support.servers import RunningServer, ServerProcess, V1Wire, eventually
from tests.support.traces import recorded

from openenv import create_app, traces
from openenv.core.env_server.traces.sqlite import connected
from openenv.core.exceptions import ConfigurationError

SESSIONS = 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def play(server: RunningServer, seed: int) -> None:
    with server.wire() as wire:
        wire.reset(seed=seed)
        assert wire.step(amount=10)["data"]["done"]


def seeds(file: str | Path) -> list[str | None]:
    return sorted(episode.seed or "" for episode, _ in recorded(file))


def test_two_servers_write_one_file(serve: Serve, location: str) -> None:
    servers = [serve(traces=location), serve(traces=location)]
    for seed in range(20):
        play(servers[seed % 2], seed)
    for server in servers:
        server.stop()
    assert seeds(location) == sorted(map(str, range(20)))
    with traces.open(location) as opened:
        assert {episode.id.partition("-")[0] for episode in opened.episodes()} == {"1", "2"}


def test_a_text_that_has_no_form_in_utf_8_costs_no_other_episode(serve: Serve, location: str) -> None:
    server = serve(traces=location)
    for name in ("index", "split", "episode_id"):
        refused = Request(
            f"{server.url}/reset", f'{{"{name}": "\\ud800"}}'.encode(), {"Content-Type": "application/json"}
        )
        with suppress(HTTPError), urlopen(refused):
            pass
    play(server, 9)
    server.stop()
    assert "9" in seeds(location)


def test_a_locked_file_costs_no_episode_and_is_written_afterwards(
    serve: Serve, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.BUSY_TIMEOUT_S", 0.05)
    server = serve(traces=file)
    metrics = server.app.state.sessions.metrics
    eventually(file.exists, "the file is there")
    play(server, 9)
    eventually(lambda: seeds(file) == ["9"], "the first episode is on record")
    with connected(file) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        for seed in range(5):
            play(server, seed)
        eventually(lambda: metrics.traces_failing, "the log says that traces can't be written")
        connection.execute("ROLLBACK")
    eventually(lambda: not metrics.traces_failing, "the traces are written again")
    server.stop()
    assert seeds(file) == list("012349")
    assert [record.levelname for record in caplog.records if "traces" in record.message] == ["ERROR", "WARNING"]


def test_a_removed_file_is_created_again(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    eventually(file.exists, "the file is there")
    play(server, 1)
    eventually(lambda: seeds(file) == ["1"], "the first episode is on record")
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()
    play(server, 2)
    eventually(lambda: file.exists() and file.stat().st_size > 0, "the file is created again")
    server.stop()
    assert seeds(file) == ["2"]


@pytest.mark.parametrize("content", [b"SQLite format 3\0 but no more", b"x" * 5000])
def test_a_file_of_something_else_keeps_the_server_from_starting_and_stays(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"traces\.db"):
        create_app(CounterEnvironment, traces=file).state.server.prepare()
    assert file.read_bytes() == content


def test_another_version_is_refused_with_both_versions(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    play(server, 1)
    server.stop()
    with connected(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigurationError, match="version 3 or an earlier one, got 99"):
        traces.open(file)


def test_another_database_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(ConfigurationError, match="another SQLite database"):
        traces.open(file)


def test_kill_9_in_the_middle_of_64_sessions_loses_only_what_was_under_way(file: Path) -> None:
    with ServerProcess("traced_server.py", str(file)) as server:
        wire = V1Wire(f"ws://127.0.0.1:{server.port}/ws")
        sessions = wire.open_many(SESSIONS)
        for number, session in enumerate(sessions):
            wire.do("reset", session, seed=number)
            wire.do("step", session, amount=10)
            wire.do("reset", session, seed=SESSIONS + number)
            wire.do("step", session, amount=1)
        eventually(lambda: len(seeds(file)) == 2 * SESSIONS, "every episode is on record")
        wire.do("step", sessions[0], amount=1)
        server.kill()
        wire.close()
    found = recorded(file)
    assert len(found) == 2 * SESSIONS
    done = [entries for episode, entries in found if episode.ending == "done"]
    assert len(done) == SESSIONS
    assert {len(entries) for entries in done} == {2}
    others = [(episode, entries) for episode, entries in found if episode.ending != "done"]
    assert all(len(entries) >= 2 for _, entries in others)
    assert {episode.ending for episode, _ in others} == {"running"}  # for the minute after which it counts as dead


def test_pruning_keeps_the_size_and_the_newest(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    for seed in range(30):
        play(server, seed)
    server.stop()
    with traces.open(file) as opened:
        newest = next(iter(opened.episodes()))
        assert opened.prune(before=newest.started_at) == 29
        assert [episode.id for episode in opened.episodes()] == [newest.id]
        assert opened.prune(before=time.time() + 1) == 1
        assert opened.prune(max_bytes=0) == 0
