"""A session is followed on a socket: what came before, each entry as it comes, and what a slow follower gets."""

import asyncio
import json
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketState
from tests.chaos.hostility import HANDSHAKE
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire, Wire, eventually

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.history.entries import History
from openenv.core.env_server.history.record import JournalRecord
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.live.follower import Follower, Followers
from openenv.core.env_server.sessions.following import FeedEntry, SessionFeed
from openenv.core.env_server.types import Action, Observation, State
from openenv.traces import TraceFile

HOSTILE = "<script>window.hacked = 1</script>\n</p> \u2028 naïve"
SECRET = "sesame-open-wide"


class Say(Action):
    text: str = ""
    number: float = 0.0


class Said(Observation):
    text: str
    number: float


class SayEnvironment(Environment[Say, Said, State]):
    """Says the same."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def reset(self, seed: int | None = None) -> Said:
        return Said(text="Go.", number=0.0)

    def step(self, action: Say) -> Said:
        if action.text == "fail":
            raise ValueError(action.text)
        return Said(text=action.text, number=math.nan if action.number < 0 else action.number, reward=1.0)

    @property
    def state(self) -> State:
        return State()


class RichEnvironment(SayEnvironment):
    """Rewards a reset with ``True``, and steps with so much that their sum is infinite."""

    def reset(self, seed: int | None = None) -> Said:
        return Said(text="Go.", number=0.0, reward=True)

    def step(self, action: Say) -> Said:
        return Said(text=action.text, number=0.0, reward=1.7e308)


class AbsorbingEnvironment(SayEnvironment):
    """Empties the list that its reset gets."""

    def reset(self, seed: int | None = None, words: list[str] | None = None) -> Said:
        if words is not None:
            words.clear()
        return Said(text="Go.", number=0.0)


class Following:
    """A follower's end of the socket."""

    def __init__(self, server: RunningServer, session: str, **query: Any) -> None:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        self.wire = Wire(f"ws://127.0.0.1:{server.port}/web/live/feed?session_id={session[:13]}{more}")
        self.opening = self.wire.receive()
        self.feed: str = self.opening.get("feed", "")
        self.entries: list[dict[str, Any]] = []
        self.missed = 0
        self.ended: str | None = self.opening.get("ended")

    @property
    def last(self) -> int:
        """Number of the last entry."""
        return int(self.entries[-1]["number"]) if self.entries else 0

    @property
    def answers(self) -> list[Any]:
        """Texts of the observations, as far as there are any."""
        return [line[5]["observation"]["text"] for line in self.lines if line[5] is not None and not line[3]]

    @property
    def lines(self) -> list[Any]:
        """The entries as they are on record."""
        return [entry["line"] for entry in self.entries]

    def read(self, *, acknowledge: bool = True) -> None:
        """Read a message."""
        message = self.wire.receive()
        self.ended = message.get("ended")
        self.missed += message.get("missed", 0)
        self.entries += message.get("entries", [])
        if acknowledge and "entries" in message:
            self.wire.send({"seen": self.last})

    def read_until(self, condition: Callable[[], bool]) -> None:
        """Read until something holds."""
        while not condition():
            self.read()

    def close(self) -> None:
        """Leave."""
        self.wire.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    app = create_fastapi_app(SayEnvironment, Say, Said, max_concurrent_envs=64, token=SECRET)
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def wire(server: RunningServer) -> Iterator[V1Wire]:
    with server.v1() as wire:
        yield wire


def say_many(wire: V1Wire, session: str, texts: list[str]) -> None:
    """Have a session say texts, one after another, in few frames."""
    for start in range(0, len(texts), 200):
        some = texts[start : start + 200]
        wire.send([wire.message("step", session, text=text) for text in some])
        wire.receive_many(len(some))


def test_what_came_before_then_each_entry(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session, seed=7)
    say_many(wire, session, ["a", "b"])
    follower = Following(server, session)
    row = follower.opening["session"]
    assert (row["session"], row["task"], row["episode_steps"], row["transport"]) == (session[:13], "seed 7", 2, "v1")
    follower.read()
    assert [(entry["number"], entry["step"]) for entry in follower.entries] == [(0, 0), (0, 1), (0, 2)]
    assert [line[4] for line in follower.lines] == [{"seed": 7}, {"text": "a"}, {"text": "b"}]
    assert [line[5] is None for line in follower.lines] == [True, True, False]  # no more of it is kept in memory
    assert follower.lines[2][5]["observation"]["text"] == "b"
    del follower.entries[:]
    say_many(wire, session, [HOSTILE, "fail"])
    wire.do("reset", session)
    follower.read_until(lambda: len(follower.entries) == 3)
    said, failed, reset = follower.entries
    assert (said["number"], said["episode"], said["step"], said["total"]) == (1, 1, 3, 3.0)
    assert (said["line"][0], said["line"][5]["observation"]["text"]) == ("step", HOSTILE)
    assert (failed["step"], failed["line"][3], failed["line"][5]["message"]) == (3, 1, "fail")
    assert (reset["line"][0], reset["episode"], reset["step"]) == ("reset", 2, 0)
    follower.close()


def test_the_journal_has_what_came_before(serve: Serve, tmp_path: Path) -> None:
    server = serve(SayEnvironment, Say, Said, journal=str(tmp_path / "journal.db"))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        say_many(wire, session, ["a", "b"])
        follower = Following(server, session)
        follower.read()
        assert follower.answers == ["Go.", "a", "b"]
        follower.close()


def test_numbers_that_are_none_and_secrets(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    follower = Following(server, session)
    wire.do("step", session, text=f"The token is {SECRET}.", number=-1)
    follower.read_until(lambda: follower.last == 1)
    answer = follower.lines[-1][5]["observation"]
    assert answer["number"] is None
    assert SECRET not in json.dumps(follower.entries)
    follower.close()


def test_a_secret_of_which_the_server_learns_later(
    server: RunningServer, wire: V1Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = wire.open()
    wire.do("reset", session)
    follower = Following(server, session)
    monkeypatch.setenv("LATER_API_KEY", "opened-by-another-word")
    wire.do("step", session, text="The key is opened-by-another-word.")
    follower.read_until(lambda: follower.last == 1)
    assert follower.answers[-1] == "The key is [redacted]."
    follower.close()


def test_rewards_whose_sum_is_no_number_of_json(serve: Serve) -> None:
    server = serve(RichEnvironment, Say, Said)
    with server.v1() as wire, server.http() as http:
        session = wire.open()
        follower = Following(server, session)
        wire.do("reset", session)
        say_many(wire, session, ["a", "b"])
        follower.read_until(lambda: follower.last == 3)
        totals = [entry["total"] for entry in follower.entries]
        assert totals == [1.0, 1.7e308, None]
        assert not isinstance(totals[0], bool)
        assert http.post("/web/live/fork", headers={"X-OpenEnv-Session": session[:13]}).json()["total"] is None
        assert http.get("/web/live/sessions").json()["total"] == 2
        follower.close()


def test_what_an_environment_changes_in_its_arguments(serve: Serve) -> None:
    server = serve(AbsorbingEnvironment, Say, Said)
    with server.wire() as legacy, server.http() as http:
        legacy.reset()
        (row,) = http.get("/web/live/sessions").json()["sessions"]
        follower = Following(server, row["session"])
        legacy.reset(words=["a", "b"])
        follower.read_until(lambda: follower.last == 1)
        assert follower.lines[-1][4] == {"words": ["a", "b"]}
        follower.close()


def test_a_fork_s_last_answer_is_not_that_of_another_session(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    wire.do("step", session, text="a")
    with server.http(headers={"X-OpenEnv-Session": session[:13]}) as http, server.v1() as own:
        forked = http.post("/web/live/fork").json()
        own.attach(forked["session"], forked["terms"]["token"])
        own.do("step", forked["session"], text="b")
        follower = Following(server, forked["session"])
        follower.read()
        assert [line[4] for line in follower.lines] == [{}, {"text": "a"}, {"text": "b"}]
        assert [line[5] is None for line in follower.lines] == [True, True, False]
        assert follower.answers == ["b"]
        follower.close()


def test_followers_have_the_same_and_one_comes_back(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    first, second = Following(server, session), Following(server, session)
    assert first.feed == second.feed
    say_many(wire, session, ["a", "b"])
    for follower in (first, second):
        follower.read_until(lambda follower=follower: follower.last == 2)  # type: ignore[misc]
        assert follower.answers[-2:] == ["a", "b"]
    second.close()
    say_many(wire, session, ["c", "d"])
    again = Following(server, session, feed=second.feed, after=second.last)
    assert again.opening["resumed"] is True
    again.read_until(lambda: again.last == 4)
    assert again.answers == ["c", "d"]
    late = Following(server, session)
    assert late.opening["resumed"] is False
    late.read_until(lambda: late.last == 4)
    assert late.answers[-4:] == ["a", "b", "c", "d"]
    for follower in (first, again, late):
        follower.close()


def test_a_slow_follower_is_sent_no_more_than_it_reads_and_misses_nothing(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    follower = Following(server, session)
    texts = [str(number) for number in range(3000)]
    say_many(wire, session, texts)
    while follower.last < 512:
        follower.read(acknowledge=False)
    on_their_way = follower.last
    assert on_their_way < 1024
    with pytest.raises(TimeoutError):  # nothing more before it says what it has seen
        follower.wire.receive(timeout_s=0.5)
    follower.wire.send({"seen": on_their_way})
    follower.read_until(lambda: follower.last == 3000)
    assert follower.answers[-3000:] == texts
    assert follower.missed == 0
    follower.close()


def test_what_the_feed_has_no_more_comes_from_the_record_or_is_counted(server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    follower = Following(server, session)
    say_many(wire, session, [str(number) for number in range(6000)])
    follower.read_until(lambda: follower.last == 6000)
    # In memory, a record holds a thousand requests, and none of an episode that is longer.
    read = len(follower.entries) - 1
    assert read + follower.missed == 6000
    assert 0 < follower.missed < 6000 - 4096
    assert follower.answers[-4000:] == [str(number) for number in range(2000, 6000)]
    follower.close()


def test_a_follower_of_the_journal_misses_nothing(serve: Serve, tmp_path: Path) -> None:
    server = serve(SayEnvironment, Say, Said, journal=str(tmp_path / "journal.db"))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        follower = Following(server, session)
        texts = ["x" * 20_000 + str(number) for number in range(450)]  # more than a feed holds
        say_many(wire, session, texts)
        follower.read_until(lambda: follower.last == 450)
        assert follower.answers[-450:] == texts
        follower.close()


def test_a_follower_that_comes_back_late_gets_nothing_twice(serve: Serve, tmp_path: Path) -> None:
    server = serve(SayEnvironment, Say, Said, journal=str(tmp_path / "journal.db"))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        staying, follower = Following(server, session), Following(server, session)
        texts = ["x" * 100_000 + str(number) for number in range(60)]  # more than a feed holds
        say_many(wire, session, texts[:5])
        follower.read_until(lambda: follower.last == 5)
        follower.close()
        say_many(wire, session, texts[5:])
        again = Following(server, session, feed=follower.feed, after=5)
        again.read_until(lambda: again.last == 60)
        assert again.entries[0]["number"] == 0  # of the record
        assert again.answers == texts[5:]
        assert again.missed == 0
        again.close()
        staying.close()


@pytest.mark.parametrize("then", ["steps", "a reset"])
def test_the_session_goes_on_while_its_record_is_read(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    reading, may_end, read = Event(), Event(), JournalRecord.history

    async def slowly_read(record: JournalRecord) -> History:
        reading.set()
        await asyncio.to_thread(may_end.wait, 60)
        return await read(record)

    monkeypatch.setattr(JournalRecord, "history", slowly_read)
    server = serve(SayEnvironment, Say, Said, journal=str(tmp_path / "journal.db"))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        say_many(wire, session, ["a", "b"])
        follower = Following(server, session)
        assert reading.wait(60)
        if then == "a reset":
            wire.do("reset", session)
        say_many(wire, session, ["c", "d"])
        may_end.set()
        follower.read_until(lambda: follower.answers[-1:] == ["d"])
        whole = ["Go.", "a", "b", "c", "d"]
        assert follower.answers == (["Go.", "c", "d"] if then == "a reset" else whole)
        follower.close()


def test_a_journal_that_can_not_be_read_leaves_what_comes(serve: Serve, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    server = serve(SayEnvironment, Say, Said, journal=str(journal))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        for path in tmp_path.iterdir():
            path.unlink()
        follower = Following(server, session)
        wire.do("step", session, text="a")
        follower.read_until(lambda: follower.last == 1)
        assert follower.answers == ["a"]
        follower.close()


@pytest.mark.parametrize("traces", [False, True])
def test_a_followed_session_records_as_any_other(serve: Serve, tmp_path: Path, *, traces: bool) -> None:
    path = tmp_path / "traces.db"
    server = serve(SayEnvironment, Say, Said, **({"traces": str(path)} if traces else {}))
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        wire.do("step", session, text="a")
        follower = Following(server, session)
        assert wire.do("step", session, text="b")["data"]["observation"]["text"] == "b"
        follower.read_until(lambda: follower.last == 1)
        wire.do("close", session)
        follower.read_until(lambda: follower.ended is not None)
        assert follower.ended == "closed"
        follower.close()
    server.stop()
    if traces:
        with TraceFile(path) as file:
            (episode,) = file.episodes()
            assert [entry.answer["observation"]["text"] for entry in file.entries(episode.id)] == ["Go.", "a", "b"]


@pytest.mark.parametrize("transport", ["legacy", "http"])
def test_sessions_of_other_transports_are_followed_from_the_next_step(server: RunningServer, transport: str) -> None:
    with server.wire() as wire, server.http() as http:
        if transport == "legacy":
            wire.reset()
        else:
            http.headers["X-OpenEnv-Session"] = http.post("/reset").headers["X-OpenEnv-Session"]
        (row,) = http.get("/web/live/sessions", params={"text": transport}).json()["sessions"]
        follower = Following(server, row["session"])
        if transport == "legacy":
            wire.step(text="a")
        else:
            http.post("/step", json={"action": {"text": "a"}})
        follower.read_until(lambda: follower.last == 1)
        assert follower.answers == ["a"]
        follower.close()


def test_a_session_that_is_none_and_a_follower_that_says_nonsense(server: RunningServer, wire: V1Wire) -> None:
    assert "No session" in str(Following(server, "00000000-0000").ended)
    session = wire.open()
    for nonsense in ("seen", '{"seen": "all"}', "[]", b'{"seen": 1}', '{"seen": ' + "[" * 100_000):
        follower = Following(server, session)
        follower.wire.send(nonsense)
        about = f"{nonsense!r:.30}"
        eventually(lambda follower=follower: follower.wire.socket.close_code == 1003, about)  # type: ignore[misc]


def test_nothing_is_recorded_for_a_session_that_is_not_followed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.env_server.live.routes._GRACE_S", 0.0)
    server = serve(CounterEnvironment, Add, Total)
    with server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        follower = Following(server, session)
        (followed,) = server.app.state.sessions
        feed: SessionFeed = followed.follow()
        assert feed.id == follower.feed
        wire.do("step", session, amount=1)
        assert feed.last == 1
        follower.close()

        def records_nothing() -> bool:
            before = feed.last
            wire.do("step", session, amount=1)
            return feed.last == before

        eventually(records_nothing, "the feed ends with its last follower")
        again = Following(server, session)
        assert again.feed != follower.feed
        wire.do("step", session, amount=1)
        again.read_until(lambda: again.last == 1)  # the first entry of its feed
        again.close()


async def test_a_follower_that_is_cancelled_leaves_no_task() -> None:
    sent = asyncio.Event()

    async def receive() -> Message:
        nothing: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await nothing

    async def send(message: Message) -> None:
        if message["type"] == "websocket.send":
            sent.set()

    async def recorded(_before: tuple[int, int] | None) -> list[FeedEntry]:
        return []

    socket = WebSocket({"type": "websocket"}, receive, send)
    socket.client_state = socket.application_state = WebSocketState.CONNECTED
    follower = Follower(socket, SessionFeed(), lambda: {"episodes": 0}, recorded, list, Followers())
    before = asyncio.all_tasks()
    serving = asyncio.create_task(follower.serve("", 0))
    await sent.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert asyncio.all_tasks() == before


FOLLOW = HANDSHAKE[:-2].replace(b"/ws", b"/web/live/feed?session_id=%b") + b"\r\n"


class TestMany:
    """Followers are limited in number, and in what they hold and cost."""

    def test_no_more_of_a_session_than_may_be(self, serve: Serve) -> None:
        server = serve(SayEnvironment, Say, Said)
        with server.v1() as wire, ExitStack() as opened:
            session, other = wire.open_many(2)
            followers = [Following(server, session) for _ in range(16)]
            for follower in followers:
                opened.callback(follower.close)
            refused = Following(server, session)
            assert refused.ended == "16 others follow this session, which is as many as may; try again later."
            Following(server, other).close()
            wire.do("reset", session)
            for follower in followers:
                follower.read()
                assert follower.last == 1
            followers.pop().close()
            eventually(lambda: follows(server, session), "there is room for another")

    def test_nor_of_a_server(self, serve: Serve) -> None:
        server = serve(SayEnvironment, Say, Said, max_concurrent_envs=9)
        with server.v1() as wire, ExitStack() as opened:
            for session in wire.open_many(8):
                for _ in range(16):
                    opened.callback(Following(server, session).close)
            assert "128 followers are on this server" in (Following(server, wire.open()).ended or "")

    def test_those_that_read_nothing_cost_the_others_little(self, serve: Serve) -> None:
        """300 that want to follow; before, each held megabytes."""
        server = serve(SayEnvironment, Say, Said)
        with server.v1() as wire, server.v1() as bystander, ExitStack() as opened:
            session, other = wire.open(), bystander.open()
            wire.do("reset", session)
            bystander.do("reset", other)
            for _ in range(300):
                client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.sendall(FOLLOW % session[:13].encode())
            for number in range(200):
                wire.do("step", session, text="x" * 40_000)
                if number % 10 == 0:
                    assert bystander.do("step", other, text="x")["type"] == "observation"
                assert server.unsent_bytes < 32 * 1024 * 1024


def follows(server: RunningServer, session: str) -> bool:
    follower = Following(server, session)
    follower.close()
    return follower.ended is None
