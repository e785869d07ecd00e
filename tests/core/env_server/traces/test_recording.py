"""Episodes of every transport, as they are on record once their server has ended."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field
from tests.conftest import Serve
from tests.support.environments import graded
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.environments.graded import GradedWalk
from tests.support.environments.pictured import FILE, Gallery, Look, View
from tests.support.mcp_agents import agent
from tests.support.ors_wire import OrsWire
from tests.support.programs.journaled_server import Walk
from tests.support.servers import RunningServer, eventually
from tests.support.traces import recorded
from typer.testing import CliRunner

from openenv import GenericEnvClient, traces
from openenv.cli.commands import traces as traces_command
from openenv.core.env_server.app import create_app, create_fastapi_app
from openenv.core.env_server.traces.recording import is_in_share
from openenv.core.exceptions import ConfigurationError, ServerError
from openenv.core.llm_client import OpenAIClient
from openenv.traces import Filter, export, import_episodes, replay

AMOUNTS = (3, 4, 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def play_v1(server: RunningServer) -> None:
    wire = server.v1()
    session = wire.open()
    wire.do("reset", session, seed=7)
    for amount in AMOUNTS:
        wire.do("step", session, amount=amount)
    wire.close()


def play_legacy(server: RunningServer) -> None:
    with server.wire() as wire:
        wire.reset(seed=7)
        for amount in AMOUNTS:
            wire.step(amount=amount)


def play_http(server: RunningServer) -> None:
    with server.http() as http:
        http.post("/reset", json={"seed": 7})
        for amount in AMOUNTS:
            assert http.post("/step", json={"action": {"amount": amount}}).status_code == 200


def play_ors(server: RunningServer) -> None:
    wire = OrsWire(server)
    wire.begin(task_spec={"seed": 7})
    for amount in AMOUNTS:
        wire.stream("add", amount=amount)
    wire.http.close()


def play_mcp(server: RunningServer) -> None:
    async def play() -> None:
        async with agent(f"{server.url}/mcp") as session:
            await session.list_tools()
            for amount in AMOUNTS:
                await session.call_tool("add", {"amount": amount})

    asyncio.run(play())


TRANSPORTS: dict[str, Callable[[RunningServer], None]] = {
    "v1": play_v1,
    "legacy": play_legacy,
    "http": play_http,
    "ors": play_ors,
    "mcp": play_mcp,
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_episode_of_each_transport_is_on_record_and_replays_equal(
    serve: Serve, location: str, tmp_path: Path, transport: str
) -> None:
    server = serve(traces=location, env_name="counter")
    TRANSPORTS[transport](server)
    server.stop()

    ((episode, entries),) = recorded(location)
    assert (episode.transport, episode.environment, episode.ending) == (transport, "counter", "done")
    assert (episode.steps, episode.reward) == (3, 10.0)
    assert episode.seed == (None if transport == "mcp" else "7")
    assert [entry.kind for entry in entries] == ["reset", "step", "step", "step"]
    assert [entry.request["amount"] for entry in entries[1:]] == list(AMOUNTS)
    assert [entry.observation["total"] for entry in entries] == [0, 3, 7, 10]
    assert [entry.reward for entry in entries[1:]] == list(AMOUNTS)
    assert [entry.done for entry in entries] == [False, False, False, True]
    times = [entry.at for entry in entries]
    assert times == sorted(times)
    assert episode.started_at <= times[-1] + 0.01
    assert all(step.same for step in replay(entries, counter_app()))

    export(location, tmp_path / "trajectories", "atif")
    with traces.open(tmp_path / "other.db", create=True) as other:
        (name,) = import_episodes(other, tmp_path / "trajectories")
        assert list(other.entries(name)) == entries
        assert replace(other.episode(name), id=episode.id) == episode

    heading, *lines = map(json.loads, shown(location, episode.id, "--json"))
    assert (heading["transport"], heading["steps"], heading["reward"]) == (transport, 3, 10.0)
    assert lines == json.loads(json.dumps([asdict(entry) for entry in entries]))
    text = "\n".join(shown(location, episode.id))
    assert f"transport: {transport}" in text
    assert all(f"\n{number} step {json.dumps(entry.request)}  (" in text for number, entry in enumerate(entries[1:], 1))

    export(location, tmp_path / "rows.jsonl", "messages")
    (row,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert (row["environment"], row["reward"], row["rewards"]) == ("counter", 10.0, list(AMOUNTS))
    said = [json.loads(each["content"]) for each in row["messages"] if each["role"] == "assistant"]
    assert said == [entry.request for entry in entries[1:]]


def shown(location: str, name: str, *options: str) -> list[str]:
    """The lines that ``openenv traces show`` prints of an episode."""
    ended = CliRunner().invoke(traces_command.app, ["show", location, name, *options])
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()


def counter_app(environment: Any = CounterEnvironment) -> Any:
    return create_fastapi_app(environment, Add)


def test_a_replay_says_what_differs(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    play_v1(server)
    server.stop()
    ((_, entries),) = recorded(file)
    compared = replay(entries, counter_app(Doubling))
    assert [step.parts for step in compared[:3]] == [(), ("observation", "reward"), ("observation", "reward", "done")]
    assert not compared[3].same


class Doubling(CounterEnvironment):
    """Counts twice as fast."""

    def step(self, action: Add) -> Total:
        return super().step(Add(amount=action.amount * 2))


def test_errors_are_on_record_and_an_episode_goes_on_after_them(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    wire = server.v1()
    session = wire.open()
    wire.do("reset", session, seed=1)
    for amount in (-1, 0, 10):
        wire.do("step", session, amount=amount)
    wire.do("step", session, amount="many")
    wire.close()
    server.stop()

    ((episode, entries),) = recorded(file)
    assert [entry.failed for entry in entries] == [False, True, True, False, True]
    assert [entry.answer.get("code") for entry in entries if entry.failed][1] == "EXECUTION_ERROR"
    assert (episode.error, episode.ending, episode.steps) == ("EXECUTION_ERROR", "done", 1)
    assert all(step.same for step in replay(entries[:4], counter_app()))


def test_the_steps_of_an_episode_are_those_of_all_its_parts(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    eventually(file.exists, "the file is there")
    with server.wire() as wire:
        wire.reset(seed=7)
        wire.step(amount=3)
        eventually(lambda: [episode.steps for episode, _ in recorded(file)] == [1], "the first part is on record")
        wire.step(amount=4)
    server.stop()
    ((episode, entries),) = recorded(file)
    assert (episode.steps, episode.reward, len(entries)) == (2, 7.0, 3)


def test_how_episodes_end_before_they_are_done(serve: Serve, file: Path) -> None:
    server = serve(traces=file)
    wire = server.v1()
    session = wire.open()
    wire.do("reset", session, seed=1)
    wire.do("step", session, amount=1)
    wire.do("reset", session, seed=2)
    wire.do("close", session)
    other = wire.open()
    wire.do("reset", other, seed=3)
    server.stop()
    assert {episode.seed: episode.ending for episode, _ in recorded(file)} == {
        "1": "reset",
        "2": "closed",
        "3": "shutdown",
    }


def test_of_a_share_some_episodes_are_whole_and_others_not_there(serve: Serve, file: Path) -> None:
    server = serve(traces=file, traces_sample=0.5)
    wire = server.v1()
    session = wire.open()
    for seed in range(60):
        wire.do("reset", session, seed=seed)
        for amount in AMOUNTS:
            wire.do("step", session, amount=amount)
    wire.close()
    server.stop()
    found = recorded(file)
    assert 5 < len(found) < 55
    assert {(episode.steps, len(entries)) for episode, entries in found} == {(3, 4)}


def test_a_named_episode_is_part_of_the_share_by_its_name(serve: Serve, file: Path) -> None:
    server = serve(traces=file, traces_sample=0.5)
    wire = server.v1()
    session = wire.open()
    names = [f"episode {number}" for number in range(40)]
    for name in names:
        wire.do("reset", session, seed=1, episode_id=name)
    wire.close()
    server.stop()
    found = {episode.episode_id for episode, _ in recorded(file)}
    assert found == {name for name in names if is_in_share(name, 0.5)}
    assert 5 < len(found) < 35


def test_only_named_episodes_can_be_recorded(serve: Serve, file: Path) -> None:
    server = serve(traces=file, traces_named_only=True)
    wire = server.v1()
    session = wire.open()
    for arguments in ({}, {"episode_id": "mine"}, {"seed": 1}):
        wire.do("reset", session, **arguments)
        wire.do("step", session, amount=1)
    wire.close()
    server.stop()
    assert [(episode.episode_id, episode.steps) for episode, _ in recorded(file)] == [("mine", 1)]


def test_a_share_of_none_records_none(serve: Serve, file: Path) -> None:
    server = serve(traces=file, traces_sample=0)
    play_v1(server)
    server.stop()
    assert recorded(file) == []


def test_a_fork_has_the_entries_before_it(serve_walks: Any, location: str) -> None:
    server = serve_walks(traces=location)
    with GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=5)
        client.step({"length": 1})
        (fork,) = client.fork(1)
        with fork:
            fork.step({"length": 2})
        client.step({"length": 3})
    server.stop()

    found = recorded(location)
    app = create_fastapi_app(Walk)
    assert sorted(entries[-1].request["length"] for _, entries in found) == [2, 3]
    for _, entries in found:
        assert [entry.kind for entry in entries] == ["reset", "step", "step"]
        assert all(step.same for step in replay(entries, app))


@pytest.mark.parametrize("isolation", [None, "process"])
def test_totals_of_components_are_those_of_the_entries(serve: Serve, location: str, isolation: Any) -> None:
    server = serve(GradedWalk, graded.Walk, graded.Spot, traces=location, isolation=isolation)
    with GenericEnvClient(base_url=server.url).sync() as client:
        client.reset()
        client.step({"length": 2})
        (fork,) = client.fork(1)
        with fork:
            fork.step({"length": 1})
        for length in (3, 1):
            client.step({"length": length})
    server.stop()
    with traces.open(location) as opened:
        assert opened.components() == ["arrival", "stride"]
        for name in opened.components():
            found = list(opened.episodes(Filter(component=name)))
            assert len(found) == 2
            for each in found:
                assert each.component == pytest.approx(opened.record(each.id).components[name])


def test_a_fork_of_a_fork_is_read_from_any_entry_on(serve_walks: Any, location: str) -> None:
    server = serve_walks(traces=location)
    with GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=5)
        client.step({"length": 1})
        (child,) = client.fork(1)
        child.step({"length": 2})
        (grandchild,) = child.fork(1)
        grandchild.step({"length": 3})
    server.stop()
    with traces.open(location) as opened:
        newest = max(opened.episodes(), key=lambda episode: episode.steps)
        lengths = [entry.request.get("length") for entry in opened.entries(newest.id)]
        assert lengths == [None, 1, 2, 3]
        for start in range(5):
            for stop in range(start, 5):
                read = opened.entries(newest.id, start, stop)
                assert [entry.request.get("length") for entry in read] == lengths[start:stop]


def test_secrets_are_not_stored(serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", 'hunter2"hunter2')
    server = serve(traces=file, token="a-token-of-the-server")
    wire = server.v1()
    session = wire.open()
    for text in ('hunter2"hunter2', "a-token-of-the-server", "https://me:letmein@example.com/x"):
        wire.do("reset", session, seed=1, episode_id=f"see {text}")
    wire.close()
    server.stop()
    content = b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))
    found = recorded(file)
    assert len(found) == 3
    assert [entries[0].request["episode_id"] for _, entries in found].count("see [redacted]") == 2
    assert all(secret not in content for secret in (b"hunter2", b"a-token-of-the-server", b"letmein", session.encode()))


class Shown(Total):
    """A total, with a text."""

    note: str = ""
    hints: list[dict[str, str]] = Field(default_factory=list)


class Showing(CounterEnvironment):
    """Shows a text in its observations, and in the error of a step with 0."""

    note = ""

    def step(self, action: Add) -> Total:
        if action.amount == 0:
            raise ValueError(self.note)
        hints = [{"word": "a", "why": self.note}, {"word": "b"}]
        return Shown(**super().step(action).model_dump(), note=f"see {self.note}", hints=hints)


def showing(note: str) -> type[Showing]:
    return type("ShowingThis", (Showing,), {"note": note})


def stored(file: Path) -> bytes:
    return b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_no_transport_has_the_secrets_that_the_server_knows_stored(
    file: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "key-of-a-variable")
    secrets = ["key-of-a-variable", "key-of-a-judge", "token-of-the-server"]
    OpenAIClient("http://127.0.0.1", 1, "judge", api_key="key-of-a-judge")
    environment = showing(" ".join(secrets))
    app = create_fastapi_app(environment, Add, Shown, traces=file, token="token-of-the-server")
    with RunningServer(app) as server:
        TRANSPORTS[transport](server)
    ((_, entries),) = recorded(file)
    assert [entry.observation.get("note") for entry in entries[1:]] == ["see [redacted] [redacted] [redacted]"] * 3
    assert not [secret for secret in secrets if secret.encode() in stored(file)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_no_transport_has_fields_stored_that_are_to_be_left_out(
    file: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_TRACES_LEAVE_OUT", "observation.hints.why,observation.missing")
    environment = showing("a private note")
    app = create_fastapi_app(environment, Add, Shown, traces=file, traces_leave_out=["observation.note"])
    with RunningServer(app) as server:
        TRANSPORTS[transport](server)
    ((episode, entries),) = recorded(file)
    assert b"private note" not in stored(file)
    assert (episode.steps, episode.reward) == (3, 10.0)
    assert [entry.observation["hints"] for entry in entries[1:]] == [[{"word": "a"}, {"word": "b"}]] * 3
    assert [sorted(entry.left_out) for entry in entries[1:]] == [["observation.hints.why", "observation.note"]] * 3

    compared = replay(entries, create_fastapi_app(environment, Add, Shown))
    assert [step.parts for step in compared] == [()] * 4
    assert compared[1].left_out == ["observation.hints.why", "observation.note"]


def test_whole_parts_and_errors_messages_can_be_left_out(file: Path) -> None:
    paths = ["reset.seed", "action", "observation", "error.message"]
    app = create_fastapi_app(showing("a private note"), Add, Shown, traces=file, traces_leave_out=paths)
    with RunningServer(app) as server:
        wire = server.v1()
        session = wire.open()
        wire.do("reset", session, seed=1)
        wire.do("step", session, amount=2)
        wire.do("step", session, amount=0)
        wire.close()
    ((episode, entries),) = recorded(file)
    assert episode.seed is None
    assert [entry.request for entry in entries] == [{}, None, None]
    assert [entry.left_out for entry in entries] == [
        ["reset.seed", "observation"],
        ["action", "observation"],
        ["action", "error.message"],
    ]
    assert entries[1].reward == 2
    assert entries[2].answer == {"code": "EXECUTION_ERROR"}
    assert b"private note" not in stored(file)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("reset", [None, {"amount": 2}, {"amount": 0}]),
        ("action", [{"seed": 1}, None, None]),
        ("error", [{"seed": 1}, {"amount": 2}, {"amount": 0}]),
    ],
)
def test_a_whole_part_can_be_left_out_alone(file: Path, path: str, kept: list[Any]) -> None:
    app = create_fastapi_app(showing("a private note"), Add, Shown, traces=file, traces_leave_out=[path])
    with RunningServer(app) as server:
        wire = server.v1()
        session = wire.open()
        wire.do("reset", session, seed=1)
        for amount in (2, 0):
            wire.do("step", session, amount=amount)
        wire.close()
    ((_, entries),) = recorded(file)
    assert [entry.request for entry in entries] == kept
    assert (entries[2].answer == {}) == (path == "error")
    assert sum(entry.left_out == [path] for entry in entries) == (kept.count(None) or 1)


def test_a_path_that_begins_with_no_part_of_an_episode_is_refused(file: Path) -> None:
    for path in ("screenshot", "observation.", "observation..x", ""):
        with pytest.raises(ConfigurationError, match=r"as in observation\.screenshot, got"):
            traces.open(file, create=True, leave_out=[path])


def test_long_episodes_without_a_journal_keep_every_action(serve_walks: Any, file: Path) -> None:
    server = serve_walks(traces=file)
    wire = server.v1()
    session = wire.open()
    wire.do("reset", session, seed=1)
    for length in range(1100):
        wire.do("step", session, length=length)
    wire.close()
    server.stop()
    ((_, entries),) = recorded(file)
    assert [entry.request["length"] for entry in entries[1:]] == list(range(1100))


class ForgetfulTotal(Total):
    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        fields = super().model_dump(**kwargs)
        if self.total == 4:
            del fields["answer"]
        return fields


class ForgetfulCounter(CounterEnvironment):
    def step(self, action: Add) -> Any:
        return ForgetfulTotal.model_construct(**dict(super().step(action)))


@pytest.mark.parametrize("settings", [{}, {"isolation": "process"}])
def test_a_step_whose_observation_s_own_model_dump_raises_is_on_record(file: Path, settings: dict[str, Any]) -> None:
    app = create_app(ForgetfulCounter, Add, ForgetfulTotal, traces=file, **settings)
    with RunningServer(app) as server:
        with server.wire() as wire:
            wire.reset()
            assert wire.step(amount=3)["data"]["observation"] == {"metadata": {}, "total": 3}
            refused = wire.step(amount=1)["data"]
            assert refused["code"] == "EXECUTION_ERROR"
            assert "its model_dump raised KeyError: 'answer'" in refused["message"]
        with server.http() as http:
            http.post("/reset", json={})
            answer = http.post("/step", json={"action": {"amount": 4}})
            assert answer.status_code == 500
            assert "its model_dump raised KeyError: 'answer'" in answer.text
    failed = [[entry.failed for entry in entries] for _, entries in recorded(file)]
    assert sorted(failed) == [[False, False, True], [False, True]]


def test_large_actions_that_are_refused_are_not_collected_without_bound(
    serve: Serve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.recording._HAND_OVER_EVERY_S", 3600.0)
    monkeypatch.setattr("openenv.core.env_server.traces.recording._MOST_COLLECTED", 50_000)
    server = serve(traces=file)
    wire = server.v1()
    session = wire.open()
    wire.do("reset", session, seed=1)
    for _ in range(3):
        wire.do("step", session, amount="x" * 20_000)
    eventually(lambda: bool(recorded(file)), "what was collected is on record")
    ((_, entries),) = recorded(file)
    assert [entry.failed for entry in entries] == [False, True, True, True]
    wire.close()


def test_filters_choose_episodes(serve: Serve, location: str) -> None:
    server = serve(traces=location)
    wire = server.v1()
    session = wire.open()
    for seed, amounts in enumerate([(3, 7), (1,), (2, 9), ()]):
        episode_id = {} if seed == 3 else {"episode_id": "evaluation-2" if seed == 2 else f"e{seed}"}
        wire.do("reset", session, seed=seed, **episode_id)
        for amount in amounts:
            wire.do("step", session, amount=amount)
    wire.close()
    server.stop()

    def seeds(**conditions: Any) -> list[str | None]:
        return [episode.seed for episode, _ in recorded(location, Filter(**conditions))]

    assert seeds() == ["3", "2", "1", "0"]
    assert seeds(min_reward=10) == ["2", "0"]
    assert seeds(max_reward=10) == ["1", "0"]
    assert seeds(ending="reset") == ["1"]
    assert seeds(seed="2") == ["2"]
    assert seeds(episode_id="e1") == ["1"]
    assert seeds(text='"amount":9') == []
    assert seeds(text="amount") == ["2", "1", "0"]
    assert seeds(environment="another") == []
    assert seeds(until=1.0) == []
    assert seeds(evaluation=True) == ["2"]
    assert seeds(evaluation=False) == ["3", "1", "0"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 but no more", b"x" * 5000])
def test_a_file_without_traces_is_refused_when_it_is_read(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"traces\.db"):
        recorded(file)


def test_a_clients_error_is_that_without_traces(serve: Serve, file: Path) -> None:
    with ExitStack() as clients:
        messages = []
        for server in (serve(traces=file), serve()):
            client = clients.enter_context(GenericEnvClient(base_url=server.url).sync())
            client.reset()
            with pytest.raises(ServerError) as caught:
                client.step({"amount": 0})
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_arrays_that_travel_as_bytes_are_on_record_as_lists(file: Path, isolation: Literal["none", "process"]) -> None:
    app = create_fastapi_app(Gallery, Look, View, traces=file, isolation=isolation)
    with RunningServer(app) as server, GenericEnvClient(server.url, arrays=True).sync() as client:
        client.reset()
        shown = client.step({"brightness": 3}).observation

    ((episode, entries),) = recorded(file)
    assert episode.steps == 1
    kept = entries[-1].answer["observation"]
    assert kept["pixels"] == shown["pixels"].tolist()
    assert kept["file"] == base64.b64encode(FILE).decode()
