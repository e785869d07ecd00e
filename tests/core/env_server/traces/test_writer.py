"""Traces where something breaks: the file is locked, removed, not a file of traces, or the server is killed."""

import random
import sqlite3
import string
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, ServerProcess, V1Wire, eventually
from tests.support.traces import recorded

from openenv import create_app, traces
from openenv.core.env_server.traces.sqlite import FileConnection, connected
from openenv.core.env_server.traces.store import EpisodeRow
from openenv.core.env_server.traces.writer import Hidden
from openenv.core.exceptions import ConfigurationError, RequestError
from openenv.traces import Entry, Episode, Filter

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


def test_a_name_that_has_no_form_in_utf_8_is_recorded_without_it(serve: Serve, location: str) -> None:
    server = serve(env_name="half\ud800", traces=location)
    play(server, 1)
    play(server, 2)
    server.stop()
    assert [(episode.environment, episode.seed) for episode, _ in recorded(location)] == [
        ("half?", "2"),
        ("half?", "1"),
    ]


class Small(FileConnection):
    """Connection to a file that takes values of at most so many bytes, as SQLite takes a thousand million."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4000)


def test_a_value_that_the_file_refuses_costs_its_episode_alone_and_is_counted(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(traces=file)
    metrics = server.app.state.sessions.metrics
    eventually(file.exists, "the file is there")
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.FileConnection", Small)
    with server.wire() as large, server.wire() as small:
        large.reset(seed=1)
        small.reset(seed=2)
        for _ in range(200):
            large.step(amount=-1)
        assert small.step(amount=10)["data"]["done"]
    eventually(lambda: metrics.trace_parts_dropped["refused"] > 0, "the large part is lost")
    play(server, 3)
    server.stop()
    with traces.open(file) as opened:
        assert {episode.seed for episode in opened.episodes(Filter(ending="done"))} == {"2", "3"}
    assert not metrics.traces_failing


def test_an_unexpected_error_is_counted_and_does_not_end_the_writer(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_seven(row: EpisodeRow, hidden: Hidden) -> EpisodeRow:
        if row.seed == "7":
            raise KeyError("seven")
        return row

    monkeypatch.setattr("openenv.core.env_server.traces.writer._redacted", refuse_seven)
    server = serve(traces=file)
    metrics = server.app.state.sessions.metrics
    for seed in (6, 7, 8):
        play(server, seed)
    eventually(lambda: metrics.trace_parts_dropped["encoding"] > 0, "it is counted")
    play(server, 9)
    text = urlopen(f"{server.url}/metrics").read().decode()
    server.stop()
    assert seeds(file) == ["6", "8", "9"]
    assert 'openenv_trace_parts_dropped_total{reason="encoding",worker="0"}' in text


def test_a_secret_that_has_no_form_in_utf_8_costs_no_episode(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-\udcff-0123456789")
    server = serve(traces=file)
    play(server, 1)
    server.stop()
    assert seeds(file) == ["1"]


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


class CodedError(RequestError):
    """An error whose code has no form in UTF-8."""

    code = "half \ud800"


class CodedEnvironment(CounterEnvironment):
    def step(self, action: Add) -> Total:
        if action.amount == 1:
            raise CodedError("refused")
        return super().step(action)


def test_an_error_of_an_author_s_without_a_form_in_utf_8_costs_no_episode(serve: Serve, location: str) -> None:
    server = serve(CodedEnvironment, traces=location)
    with server.wire() as wire:
        wire.reset(seed=1)
        wire.step(amount=1)
    play(server, 2)
    server.stop()
    assert seeds(location) == ["1", "2"]


class OnFullDisk(FileConnection):
    """Connection to a file that may take no more pages; SQLite reports the same of a disk without space."""

    is_full = False

    @contextmanager
    def changing(self, *, removes: bool = False, adds: int = 0) -> Iterator[None]:
        self.execute(f"PRAGMA max_page_count = {1 if self.is_full else 2**31 - 1}")  # never less than there are
        with super().changing(removes=removes, adds=adds):
            yield


def test_a_full_disk_costs_no_episode_and_what_waits_is_written_when_there_is_space(
    serve: Serve, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.FileConnection", OnFullDisk)
    server = serve(traces=file)
    metrics = server.app.state.sessions.metrics
    eventually(file.exists, "the file is there")
    play(server, 0)
    eventually(lambda: seeds(file) == ["0"], "the first episode is on record")
    monkeypatch.setattr(OnFullDisk, "is_full", True)
    played = 0
    while not metrics.traces_failing:
        played += 1
        play(server, played)
    for seed in range(played + 1, played + 6):
        play(server, seed)
    assert str(played + 5) not in seeds(file)
    monkeypatch.setattr(OnFullDisk, "is_full", False)
    eventually(lambda: not metrics.traces_failing, "the traces are written again")
    server.stop()
    assert seeds(file) == sorted(map(str, range(played + 6)))
    messages = [record for record in caplog.records if "traces" in record.getMessage()]
    assert [record.levelname for record in messages] == ["ERROR", "WARNING"]
    assert "database or disk is full" in messages[0].getMessage()
    assert "0 parts of episodes are lost" in messages[1].getMessage()


def test_what_is_written_makes_room_for_what_comes(serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.writer._MOST_WAITING", 0)
    server = serve(traces=file)
    eventually(file.exists, "the file is there")
    play(server, 1)
    eventually(lambda: seeds(file) == ["1"], "the first episode is on record")
    play(server, 2)
    server.stop()
    assert seeds(file) == ["1", "2"]


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
    with pytest.raises(ConfigurationError, match="version 4 or an earlier one, got 99"):
        traces.open(file)


def test_another_database_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(ConfigurationError, match="another SQLite database"):
        traces.open(file)


class Counting:
    """Sessions on one socket that count to ten again and again, some in more steps than others."""

    def __init__(self, wire: V1Wire) -> None:
        self._wire = wire
        self._amounts = {session: 1 + number % 3 for number, session in enumerate(wire.open_many(SESSIONS))}
        self._seeds = count()
        self._seed_of: dict[str, int] = {}  # of the episode that a session plays
        self.ended: set[str | None] = set()

    def ask(self) -> None:
        """Send the next request of every session."""
        self._wire.send([self._next_of(session) for session in self._amounts])

    def go_on(self) -> None:
        """Have every session answer its next request."""
        self.ask()
        for answer in self._wire.receive_many(SESSIONS):
            if answer["data"]["done"]:
                self.ended.add(str(self._seed_of.pop(answer["session"])))

    def _next_of(self, session: str) -> dict[str, Any]:
        if session in self._seed_of:
            return self._wire.message("step", session, amount=self._amounts[session])
        self._seed_of[session] = next(self._seeds)
        return self._wire.message("reset", session, seed=self._seed_of[session])


def has_ended_there(file: Path, expected: set[str | None], sessions: Counting) -> bool:
    """Whether episodes are on record to their ends; all sessions go on meanwhile."""
    sessions.go_on()
    with traces.open(file) as opened:
        return expected <= {episode.seed for episode in opened.episodes(Filter(ending="done"))}


def check_is_whole(episode: Episode, entries: list[Entry]) -> None:
    """Fail unless an episode has all its entries from the first on, and says of itself what they say."""
    assert [entry.kind for entry in entries] == ["reset", *["step"] * episode.steps]
    amounts = [entry.request["amount"] for entry in entries[1:]]
    assert [entry.observation["total"] for entry in entries] == [0, *accumulate(amounts)]
    assert (episode.reward or 0) == sum(amounts)
    assert entries[-1].done is (episode.ending == "done")


def test_kill_9_while_64_sessions_step_loses_only_what_the_last_writes_lack(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess("traced_server.py", str(file)) as server:
        wire = V1Wire(f"ws://127.0.0.1:{server.port}/ws")
        sessions = Counting(wire)
        while len(sessions.ended) < 2 * SESSIONS:
            sessions.go_on()
        earlier = set(sessions.ended)
        eventually(lambda: has_ended_there(file, earlier, sessions), "what ended earlier is on record")
        sessions.ask()
        server.kill()
        wire.close()

    found = recorded(file)
    assert {episode.ending for episode, _ in found} <= {"done", "running"}  # for a minute, until it counts as dead
    monkeypatch.setattr("openenv.core.env_server.traces.store._ALIVE_S", 0.0)
    found = recorded(file)
    done = {episode.seed for episode, _ in found if episode.ending == "done"}
    assert {episode.ending for episode, _ in found} <= {"done", "interrupted"}
    assert earlier <= done
    for episode, entries in found:
        check_is_whole(episode, entries)

    following = serve(traces=file)
    play(following, 9999)
    following.stop()
    newest, *others = recorded(file)
    assert (newest[0].id, newest[0].seed, newest[0].ending) == ("2-1", "9999", "done")
    assert others == found


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


def listed(file: Path) -> list[str | None]:
    """The seeds of a file's episodes, without their entries, which a server may remove meanwhile."""
    with traces.open(file) as opened:
        return sorted(episode.seed or "" for episode in opened.episodes())


def test_a_server_removes_what_is_too_old_but_no_episode_that_runs(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.writer._PRUNE_EVERY_S", 0.0)
    server = serve(traces=file, traces_max_age_s=3600.0)
    with server.wire() as wire:
        for seed in (1, 2):
            play(server, seed)
        wire.reset(seed=3)
        eventually(lambda: file.exists() and listed(file) == ["1", "2", "3"], "all three are on record")
        with connected(file) as connection:
            connection.execute("UPDATE episode SET started_at = started_at - 7200 WHERE seed IN ('1', '3')")
        play(server, 4)
        eventually(lambda: listed(file) == ["2", "3", "4"], "what is too old is removed")
        assert wire.step(amount=10)["data"]["done"]
        eventually(lambda: listed(file) == ["2", "4"], "it is removed once it has ended")
    server.stop()
    with connected(file) as connection:
        assert connection.execute("SELECT count(DISTINCT episode) FROM part").fetchone() == (2,)


class NoisyEnvironment(CounterEnvironment):
    """Counter that shows much, and something else each time."""

    def step(self, action: Add) -> Total:
        seen = super().step(action)
        seen.metadata = {"noise": " ".join(random.choices(string.ascii_letters, k=20_000))}
        return seen


class EndlessEnvironment(NoisyEnvironment):
    """The same, and ends with a step of 10 alone."""

    def step(self, action: Add) -> Total:
        seen = super().step(action)
        seen.done = action.amount == 10
        return seen


def endings(file: Path) -> list[str | None]:
    with traces.open(file) as opened:
        return [episode.ending for episode in opened.episodes()]


def size_on_disk(file: Path) -> int:
    return sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))


@pytest.mark.level("process")  # megabytes are written
def test_a_file_stays_within_a_tenth_of_its_largest_size_with_its_log(serve: Serve, file: Path) -> None:
    server = serve(NoisyEnvironment, traces=file, traces_max_size_mb=8)
    largest = 0
    for seed in range(60):
        with server.wire() as wire:
            wire.reset(seed=seed)
            for amount in (1, 1, 1, 1, 1, 5):
                wire.step(amount=amount)
        if seed % 5 == 0:
            eventually(lambda: file.exists() and str(seed) in listed(file), "the episode is on record")  # noqa: B023
        largest = max(largest, size_on_disk(file))
    server.stop()
    assert 7 < max(largest, size_on_disk(file)) / 1024**2 <= 8.8
    with traces.open(file) as opened:
        assert 10 < opened.count() < 20
        newest = next(iter(opened.episodes()))
        assert (newest.seed, newest.ending, len(list(opened.entries(newest.id)))) == ("59", "done", 7)


@pytest.mark.level("process")  # megabytes are written
def test_episodes_that_still_run_fill_no_more_than_the_largest_size_and_their_ends_are_on_record(
    serve: Serve, file: Path
) -> None:
    server = serve(EndlessEnvironment, traces=file, traces_max_size_mb=4)
    metrics = server.app.state.sessions.metrics
    largest = 0
    with server.wire() as wire, server.wire() as other:
        for number, one in enumerate((wire, other)):
            one.reset(seed=number)
        while not metrics.trace_parts_dropped["size"]:
            for one in (wire, other):
                one.step(amount=1)
            largest = max(largest, size_on_disk(file))
        eventually(lambda: metrics.traces_failing, "the metrics say so")
        for one in (wire, other):
            assert one.step(amount=10)["data"]["done"]
        eventually(lambda: set(endings(file)) == {"done"}, "both have ended on record")
        play(server, 2)
        eventually(lambda: "2" in listed(file), "the next episode is on record")
        eventually(lambda: not metrics.traces_failing, "they are written again")
    server.stop()
    assert 3.5 < max(largest, size_on_disk(file)) / 1024**2 <= 4.4
    with traces.open(file) as opened:
        check_is_whole(next(iter(opened.episodes())), list(opened.entries("1-3")))


@pytest.mark.level("process")  # megabytes are written
def test_a_log_that_another_process_reads_stays_within_a_tenth_and_what_waits_is_written_later(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.BUSY_TIMEOUT_S", 0.1)
    server = serve(NoisyEnvironment, traces=file, traces_max_size_mb=16)
    metrics = server.app.state.sessions.metrics
    play(server, 0)
    eventually(lambda: file.exists() and listed(file) == ["0"], "the first episode is on record")
    largest = 0
    with connected(file) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM episode").fetchall()
        for seed in range(1, 12):
            with server.wire() as wire:
                wire.reset(seed=seed)
                for amount in (*[1] * 9, 5):
                    wire.step(amount=amount)
            largest = max(largest, size_on_disk(file))
        eventually(lambda: metrics.traces_failing, "there is no room in the log")
        largest = max(largest, size_on_disk(file))
    eventually(lambda: len(listed(file)) == 12, "what waited is on record")
    server.stop()
    assert largest / 1024**2 <= 1.7
    assert not metrics.trace_parts_dropped


class OnceLocked(FileConnection):
    """Connection to a file whose third transaction from some moment on meets a lock."""

    left: int | None = None

    @contextmanager
    def changing(self, *, removes: bool = False, adds: int = 0) -> Iterator[None]:
        if OnceLocked.left is not None:
            OnceLocked.left -= 1
            if OnceLocked.left == 0:
                raise sqlite3.OperationalError("database is locked")
        with super().changing(removes=removes, adds=adds):
            yield


def test_what_was_written_before_a_failure_is_not_written_again(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.FileConnection", OnceLocked)
    monkeypatch.setattr("openenv.core.env_server.traces.writer._LEAST_PIECE", 0)
    monkeypatch.setattr("openenv.core.env_server.traces.writer._SHARE_OF_PIECE", 0)
    server = serve(traces=file)
    metrics = server.app.state.sessions.metrics
    play(server, 0)
    eventually(lambda: file.exists() and listed(file) == ["0"], "the first episode is on record")
    monkeypatch.setattr(OnceLocked, "left", 3)
    for seed in range(1, 7):
        play(server, seed)
    eventually(lambda: OnceLocked.left is not None and OnceLocked.left < 0, "the lock was met")
    server.stop()
    assert seeds(file) == list("0123456")
    assert not metrics.trace_parts_dropped
