"""Sessions of ORS over real HTTP: episodes from beginning to end, and everything that is refused."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    CounterEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    Shown,
    ThreadedCounterEnvironment,
)
from tests.support.environments.isolated import Isolated
from tests.support.environments.ors import PICTURE, RiddleEnvironment
from tests.support.environments.tasked import ListingEnvironment
from tests.support.ors_wire import OrsWire, events_of
from tests.support.servers import RunningServer, eventually

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.ors import routes
from openenv.core.env_server.ors.episode import OrsEpisode
from openenv.core.env_server.types import ConcurrencyConfig, State

Start = Callable[..., RunningServer]


class AnyArgumentsEnvironment(Environment[CallToolAction, CallToolObservation, State]):
    """Has a tool whose schema is somebody else's, such as an MCP server's."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    OFFERS_TOOLS = True

    def reset(self) -> CallToolObservation:
        return CallToolObservation(tool_name="", result=None)

    def step(self, action: CallToolAction | ListToolsAction) -> CallToolObservation | ListToolsObservation:
        if isinstance(action, CallToolAction):
            return CallToolObservation(tool_name=action.tool_name, result=",".join(action.arguments))
        schema = {"type": "object", "properties": {"anything": True}}
        return ListToolsObservation(tools=[Tool(name="take", description="", input_schema=schema)])

    @property
    def state(self) -> State:
        return State()


class SlowlyListedEnvironment(GatedEnvironment):
    """Takes its time to say which tasks it has."""

    def list_splits(self) -> list[str]:
        self.gate.pass_through()
        return ["train"]


# What a proxy in front of the server adds: the request comes from another machine.
ELSEWHERE = {"X-Forwarded-For": "192.0.2.1"}


@pytest.fixture
def riddles(serve: Serve) -> Start:
    """Serve riddles: ``riddles(**settings)``."""
    return partial(serve, RiddleEnvironment, CallToolAction, CallToolObservation, env_name="riddle")


@pytest.fixture(scope="module")
def riddle() -> Iterator[RunningServer]:
    """One server of riddles for all tests that leave it as they found it."""
    app = create_fastapi_app(
        RiddleEnvironment, CallToolAction, CallToolObservation, env_name="riddle", max_concurrent_envs=8
    )
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def wire(riddle: RunningServer) -> Iterator[OrsWire]:
    """A session on that server, which is deleted after the test."""
    with OrsWire(riddle) as wire:
        yield wire
        wire.post("/delete")
    riddle.wait_for_sessions(0)
    riddle.assert_no_errors()


def refused(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["detail"]


def output(result: dict[str, Any]) -> tuple[str, float | None, bool]:
    assert result["ok"] is True, result
    (block,) = result["output"]["blocks"]
    return block["text"], result["output"]["reward"], result["output"]["finished"]


class TestEpisodes:
    def test_from_beginning_to_end(self, riddle: RunningServer, wire: OrsWire) -> None:
        assert wire.begin(split="train", index=1) == "Tell me world."
        assert wire.call("tell", word="no", times=2) == {
            "ok": True,
            "output": {
                "blocks": [{"text": "wrong", "detail": None, "type": "text"}],
                "metadata": {"times": 2},
                "reward": 0.0,
                "finished": False,
            },
        }
        assert output(wire.call("told")) == ('["no","no"]', None, False)
        assert output(wire.call("tell", word="world")) == ("right", 1.0, True)
        assert wire.post("/delete").json() == {"sid": wire.sid}
        assert wire.post("/delete_session").json() == {"sid": wire.sid}
        riddle.wait_for_sessions(0)

    def test_a_task_of_the_clients_own(self, wire: OrsWire) -> None:
        assert wire.begin(task_spec={"word": "other"}, env_name="RIDDLE") == "Tell me other."

    def test_the_prompt_is_a_conversation_too(self, wire: OrsWire) -> None:
        wire.begin()
        blocks = [{"text": "Tell me hello.", "detail": None, "type": "text"}]
        assert wire.get("/prompt").json() == blocks
        assert wire.get("/messages").json() == [{"role": "user", "blocks": blocks, "detail": None}]

    def test_an_observation_without_a_text_is_shown_as_json(self, serve: Serve) -> None:
        with OrsWire(serve(ListingEnvironment, env_name="c")) as wire:
            assert json.loads(wire.begin(split="train", index=2)) == {"total": 3}
            assert json.loads(output(wire.call("add", amount=4))[0]) == {"total": 7, "done": False}
            assert output(wire.call("add", amount=4))[1:] == (4.0, True)

    def test_tools_of_the_class_and_of_the_task(self, wire: OrsWire) -> None:
        shared = wire.get("/tools").json()
        tell = shared["tools"][0]
        assert (tell["name"], tell["description"]) == ("tell", "Say a word.")
        assert tell["input_schema"]["required"] == ["word"]
        assert {key: value for key, value in shared.items() if key != "tools"} == {
            "terminal_tool": None,
            "supports_score_group": False,
            "message_block_types": ["text", "image"],
        }
        wire.begin(split="train", index=1)
        names = [tool["name"] for tool in wire.get("/task_tools").json()["tools"]]
        assert names == [tool["name"] for tool in shared["tools"]] + ["whisper"]
        assert output(wire.call("whisper", word="LOUD"))[0] == "loud"

    def test_pictures_are_carried(self, wire: OrsWire) -> None:
        wire.begin()
        blocks = wire.call("paint")["output"]["blocks"]
        assert [block["type"] for block in blocks] == ["text", "image"]
        assert blocks[1] == {"data": PICTURE, "mimeType": "image/png", "detail": None, "type": "image"}

    @pytest.mark.parametrize("text", ['"\'\'\'"""\\', "\x00\u2028\r\n\t", "🟩é\ud7ff", "x" * 1_000_000, " " * 9000])
    def test_anything_is_carried_and_nothing_executed(self, wire: OrsWire, text: str) -> None:
        wire.begin()
        wire.call("tell", word=text)
        assert json.loads(output(wire.call("told"))[0]) == [text]

    def test_paths_with_the_environments_name_in_front(self, wire: OrsWire) -> None:
        wire.begin()
        assert wire.get("/Riddle/prompt").json() == wire.get("/prompt").json()
        assert wire.get("/riddle/tools").json() == wire.get("/tools").json()
        assert wire.post("/riddle/call", {"name": "told", "input": {}}).status_code == 200
        assert refused(wire.get("/other/prompt")) == (404, "unknown environment 'other'")
        assert wire.post("/riddle/task", {"split": "train", "index": 0}).json() == {
            "task": {"word": "hello"},
            "env_name": "riddle",
        }

    def test_without_a_session_these_paths_are_the_public_servers(self, riddle: RunningServer) -> None:
        with riddle.http() as client:
            assert client.get("/riddle/splits").status_code == 501
            assert client.post("/riddle/tasks", json={"split": "train"}).json()["tasks"] == [
                {"word": "hello"},
                {"word": "world"},
            ]

    def test_all_this_without_isolation_and_with_it(self, riddles: Start) -> None:
        with OrsWire(riddles(isolation="process")) as wire:
            assert [task["word"] for task in wire.post("/tasks", {"split": "train"}).json()["tasks"]] == [
                "hello",
                "world",
            ]
            assert wire.begin(split="train", index=1) == "Tell me world."
            assert output(wire.call("tell", word="world")) == ("right", 1.0, True)


class TestRoutesOfAuthors:
    def test_they_have_their_paths_for_themselves(self, riddles: Start) -> None:
        server = riddles()

        @server.app.get("/version")
        def version() -> str:
            return "the author's"

        @server.app.post("/create")
        def create() -> str:
            return "created"

        with server.http() as client:
            assert client.get("/version").json() == "the author's"
            assert client.post("/create").json() == "created"
            assert client.get("/tools").json()["tools"], "a path that the author leaves"
        with OrsWire(server) as wire:
            assert wire.begin(task_spec={"word": "world"}) == "Tell me world."


class TestRefusals:
    def test_requests_that_name_no_session(self, riddle: RunningServer) -> None:
        with riddle.http() as client:
            for path in ("/prompt", "/messages", "/task_tools"):
                assert refused(client.get(path)) == (400, "X-Session-ID header is required")
            for path in ("/ping", "/delete", "/delete_session"):
                assert refused(client.post(path)) == (400, "X-Session-ID header is required")
            assert client.post("/create", json={"task_spec": {}}).status_code == 400
            assert client.post("/ping", headers={"X-Session-ID": ""}).status_code == 400
            assert client.post("/ping", headers={"X-Session-ID": "x" * 300}).status_code == 422

    def test_a_session_that_never_was(self, wire: OrsWire) -> None:
        for response in (
            wire.get("/prompt"),
            wire.get("/messages"),
            wire.get("/task_tools"),
            wire.post("/ping"),
            wire.post("/call", {"name": "told", "input": {}}),
        ):
            assert refused(response) == (404, "Active environment not found")
        assert wire.post("/delete").json() == {"sid": wire.sid}

    def test_a_session_that_has_ended(self, riddle: RunningServer, wire: OrsWire) -> None:
        wire.begin()
        wire.post("/delete")
        riddle.wait_for_sessions(0)
        for response in (wire.get("/prompt"), wire.post("/ping"), wire.post("/call", {"name": "told", "input": {}})):
            assert refused(response) == (410, "Session deleted")
        assert wire.begin() == "Tell me hello."  # the name may be used again

    @pytest.mark.parametrize(
        ("body", "status", "detail"),
        [
            ({"split": "nope", "index": 0}, 400, "Invalid split"),
            ({"split": "train", "index": 2}, 400, "Invalid index"),
            ({"task_spec": {}, "env_name": "other"}, 404, "unknown environment 'other'"),
            ({"task_spec": {}, "toolset_name": "codex"}, 400, "unknown toolset 'codex'; this server has none"),
        ],
    )
    def test_what_can_not_be_created(
        self, riddle: RunningServer, wire: OrsWire, body: Any, status: int, detail: str
    ) -> None:
        assert refused(wire.post("/create", body)) == (status, detail)
        riddle.wait_for_sessions(0)
        assert wire.get("/prompt").status_code == 404

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"split": "train"},
            {"index": 1},
            {"task_spec": {}, "split": "train", "index": 1},
            {"task_spec": {}, "split": "train"},
            {"task_spec": []},
            {"task_spec": {}, "more": 1},
            [],
        ],
    )
    def test_bodies_that_name_no_task_or_two(self, wire: OrsWire, body: Any) -> None:
        assert wire.post("/create", body).status_code == 422

    def test_a_name_is_used_once_at_a_time(self, wire: OrsWire) -> None:
        wire.begin()
        assert refused(wire.create(task_spec={})) == (400, "Session already exists")
        assert wire.get("/prompt").status_code == 200

    def test_every_place_is_taken(self, riddles: Start) -> None:
        server = riddles(max_concurrent_envs=1)
        with OrsWire(server) as first, OrsWire(server) as second:
            first.begin()
            response = second.create(task_spec={})
            assert response.status_code == 503
            answer = response.json()
            assert (answer["code"], answer["active_sessions"], answer["max_sessions"]) == ("CAPACITY_REACHED", 1, 1)
            first.post("/delete")
            server.wait_for_sessions(0)
            assert second.begin() == "Tell me hello."

    def test_a_reset_that_fails(self, wire: OrsWire) -> None:
        wire.create(task_spec={"word": "broken"})
        for path in ("/prompt", "/task_tools"):
            response = wire.get(path)
            assert (response.status_code, response.json()["code"]) == (500, "EXECUTION_ERROR")
            assert "kaboom" in response.text
            assert "/root" not in response.text
            assert "Traceback" not in response.text

    def test_a_reset_that_refuses_its_task(self, wire: OrsWire) -> None:
        wire.create(task_spec={"word": "refused"})
        assert refused(wire.get("/prompt")) == (400, "word is 'refused'; expected another one.")

    def test_production_has_no_such_clients(self, riddles: Start) -> None:
        with riddles(mode="production").http(headers={"X-Session-ID": "x"}) as client:
            for path in ("/create_session", "/create", "/call", "/ping", "/delete"):
                assert client.post(path, json={}).status_code == 404
            assert client.get("/tools").status_code == 404

    def test_a_token_may_come_as_an_api_key(self, riddles: Start) -> None:
        server = riddles(token="secret-token")
        with server.http(headers=ELSEWHERE) as client:
            assert client.post("/create_session").status_code == 401
            for key in ("other", ""):
                assert client.post("/create_session", headers={"X-API-Key": key}).status_code == 401
        with OrsWire(server, {**ELSEWHERE, "X-API-Key": "secret-token"}) as wire:
            assert wire.begin() == "Tell me hello."
        with OrsWire(server, {"X-API-Key": ""}) as wire:  # as clients without a key send it
            assert wire.begin() == "Tell me hello."


class TestCalls:
    def test_an_unknown_tool(self, wire: OrsWire) -> None:
        wire.begin()
        for name in ("shout", "reset", "state", "__init__", "", "é\n"):
            result = wire.call(name)
            assert (result["ok"], result["reason"]) == (False, "not_found")
        assert output(wire.call("told"))[0] == "[]"

    def test_wrong_arguments(self, wire: OrsWire) -> None:
        wire.begin()
        for arguments in ({}, {"word": 1}, {"word": "a", "times": "many"}, {"word": "a", "more": 1}):
            result = wire.call("tell", **arguments)
            assert (result["ok"], result["reason"]) == (False, "input_validation")
        assert output(wire.call("told"))[0] == "[]"

    def test_null_for_an_argument_that_was_not_set(self, wire: OrsWire) -> None:
        wire.begin()
        assert wire.call("tell", word="no", times=None)["output"]["metadata"] == {"times": 1}
        assert wire.call("tell", word=None)["reason"] == "input_validation"
        assert wire.call("whisper", word=None)["reason"] == "not_found"
        assert output(wire.call("recall", pattern=None))[0] == "anything"

    def test_null_for_an_argument_whose_schema_allows_everything(self, serve: Serve) -> None:
        server = serve(AnyArgumentsEnvironment, CallToolAction, CallToolObservation)
        with OrsWire(server) as wire:
            wire.begin(task_spec={})
            assert output(wire.call("take", anything=None))[0] == "anything"

    def test_rules_that_refuse_an_action(self, serve: Serve) -> None:
        with OrsWire(serve(CounterEnvironment)) as wire:
            wire.begin()
            result = wire.call("add", amount=-1)
            assert (result["ok"], result["reason"]) == (False, "input_validation")
            assert "Expected a positive amount, got -1." in result["error"]

    @pytest.mark.parametrize("first", ["tell", "paint"])
    def test_the_episode_has_finished(self, wire: OrsWire, first: str) -> None:
        wire.begin()
        wire.call("tell", word="hello")
        result = wire.call(first, **({"word": "hello"} if first == "tell" else {}))
        assert (result["ok"], result["reason"]) == (False, "episode_finished")
        assert f"'{first}' was not run" in result["error"]

    def test_an_episode_that_has_ended_with_its_beginning(self, wire: OrsWire) -> None:
        assert wire.begin(task_spec={"word": "nothing"}) == "Tell me nothing."
        assert wire.call("told")["reason"] == "episode_finished"

    def test_an_environment_that_would_go_on_after_its_end_does_not(self, serve: Serve) -> None:
        class Endless(CounterEnvironment):
            REQUIRES_RESET = False

        with OrsWire(serve(Endless)) as wire:
            wire.begin()
            wire.call("add", amount=10)
            assert wire.call("add", amount=1)["reason"] == "episode_finished"

    def test_a_tool_that_raises_is_for_the_model_to_read(self, wire: OrsWire) -> None:
        wire.begin()
        result = wire.call("fall", text="over")
        assert output(result) == ("over", None, False)
        assert result["output"]["metadata"]["error"] == {"error_type": "execution_error", "message": "over"}
        assert output(wire.call("told"))[0] == "[]"

    def test_a_call_that_takes_too_long(self, serve: Serve, gate: Gate) -> None:
        with OrsWire(serve(partial(GatedEnvironment, gate), step_timeout_s=0.1)) as wire:
            wire.begin()
            assert "did not finish within 0.1 s" in wire.failed("add", amount=9)

    def test_a_body_that_is_no_call(self, wire: OrsWire) -> None:
        wire.begin()
        bodies: list[Any] = [{"name": "told"}, {"name": 1, "input": {}}, {"name": "told", "input": []}, []]
        for body in [*bodies, {"name": "told", "input": {}, "more": 1}]:
            assert wire.post("/call", body).status_code == 422

    def test_a_process_that_dies_is_told_and_the_session_is_over(self, serve: Serve) -> None:
        with OrsWire(serve(Isolated, Do, Shown, isolation="process")) as wire:
            wire.begin()
            assert "process" in wire.failed("do", what="exit")
            assert "Expected a reset" in wire.failed("do", what="hello")


class TestConnections:
    def test_a_call_goes_on_without_its_client_and_its_answer_is_fetched(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with OrsWire(server) as wire:
            wire.begin()
            body = {"name": "add", "input": {"amount": 9}}
            with wire.http.stream("POST", "/call", json=body) as response:
                task_id = events_of(next(response.iter_text()) + "\n\n")[0].data
                gate.wait_until_entered()
            gate.opened.set()
            _, end = wire.stream("add", task_id, amount=9)
            assert json.loads(end.data)["output"]["reward"] == 9
            assert gate.calls.count("step") == 1

    def test_another_sessions_call_is_unknown(self, riddle: RunningServer, wire: OrsWire) -> None:
        wire.begin()
        task_id = wire.stream("told")[0].data
        with OrsWire(riddle) as other:
            other.begin()
            assert other.stream("told", task_id)[1] == ("error", "unknown task_id")
            other.post("/delete")
        assert wire.stream("told", task_id)[1].event == "end"
        assert wire.stream("told", "made up")[1] == ("error", "unknown task_id")

    def test_two_sessions_never_see_each_other(self, riddle: RunningServer, wire: OrsWire) -> None:
        with OrsWire(riddle) as other:
            wire.begin(split="train", index=0)
            other.begin(split="train", index=1)
            wire.call("tell", word="mine")
            assert json.loads(output(other.call("told"))[0]) == []
            other.call("tell", word="world")
            assert output(wire.call("tell", word="hello")) == ("right", 1.0, True)
            other.post("/delete")
            assert wire.get("/prompt").status_code == 200

    def test_its_name_opens_nothing_else(self, riddle: RunningServer, wire: OrsWire) -> None:
        wire.begin()
        with riddle.http(headers={"X-OpenEnv-Session": wire.sid}) as client:
            assert client.get("/state").status_code == 404
            assert client.post("/step", json={"action": {"tool_name": "told"}}).status_code == 404

    def test_sessions_are_listed_as_what_they_are(self, riddle: RunningServer, wire: OrsWire) -> None:
        wire.begin()
        (row,) = wire.get("/sessions").json()["sessions"]
        assert (row["transport"], row["phase"]) == ("ors", "playing")
        assert wire.sid not in wire.get("/sessions").text

    def test_calls_at_the_same_time_are_played_one_by_one(self, serve: Serve) -> None:
        with OrsWire(serve(ThreadedCounterEnvironment)) as wire:
            wire.begin()
            results: list[dict[str, Any]] = []
            threads = [threading.Thread(target=lambda: results.append(wire.call("add", amount=2))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(result["ok"] for result in results) == [False] * 3 + [True] * 5
            assert {result.get("reason") for result in results} == {None, "episode_finished"}
            assert sum(result["output"]["finished"] for result in results if result["ok"]) == 1


class TestBeginning:
    def test_creating_does_not_wait_for_the_reset(
        self, serve: Serve, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(routes, "_BEGINNING_TIMEOUT_S", 0.05)
        with OrsWire(serve(partial(GatedEnvironment, gate))) as wire:
            assert wire.create(task_spec={"episode_id": "held"}).status_code == 200
            gate.wait_until_entered()
            for response in (wire.get("/prompt"), wire.post("/call", {"name": "add", "input": {"amount": 1}})):
                assert refused(response) == (503, "Environment still starting.")
                assert response.headers["x-backend-state"] == "starting"
                assert int(response.headers["retry-after"]) > 0
            gate.opened.set()
            eventually(lambda: wire.get("/prompt").status_code == 200, "the episode has begun")
            assert gate.calls.count("step") == 0

    def test_who_waits_for_a_session_that_is_deleted_is_told(
        self, serve: Serve, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_waited_for = threading.Event()

        class WatchedEpisode(OrsEpisode):
            async def begun(self, timeout_s: float) -> bool:
                is_waited_for.set()
                return await super().begun(timeout_s)

        monkeypatch.setattr(routes, "OrsEpisode", WatchedEpisode)
        with OrsWire(serve(partial(GatedEnvironment, gate))) as wire:
            wire.create(task_spec={"episode_id": "held"})
            gate.wait_until_entered()
            answers: list[httpx.Response] = []
            waiting = threading.Thread(target=lambda: answers.append(wire.get("/prompt")))
            waiting.start()
            assert is_waited_for.wait(60)
            wire.post("/delete")
            waiting.join()
            assert refused(answers[0]) == (410, "Session deleted")

    def test_a_client_that_gives_up_leaves_no_session(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(SlowlyListedEnvironment, gate))
        with OrsWire(server) as wire:
            answers: list[httpx.Response] = []
            creating = threading.Thread(target=lambda: answers.append(wire.create(split="train", index=0)))
            creating.start()
            gate.wait_until_entered()
            assert wire.post("/delete").status_code == 200
            gate.opened.set()
            creating.join()
            assert refused(answers[0]) == (410, "Session deleted")
            server.wait_for_sessions(0)
            assert wire.create(split="train", index=0).status_code == 200  # the name may be used once more


class TestKeepingAlive:
    def test_pings_keep_a_session_and_silence_ends_it(self, riddles: Start) -> None:
        idle_s = 0.5
        config = ConcurrencyConfig(max_concurrent_envs=8, session_timeout=idle_s)
        server = riddles(max_concurrent_envs=None, concurrency_config=config)
        with OrsWire(server) as wire:
            assert any(self.is_kept(wire, idle_s) for _ in range(20)), "this machine is too slow to ping twice a second"
            server.wait_for_sessions(0)
            assert refused(wire.post("/ping")) == (410, "Session deleted")

    def is_kept(self, wire: OrsWire, idle_s: float) -> bool:
        """Ping for three times the time after which a session ends; ``False`` where a ping came too late."""
        began = asked = time.monotonic()
        wire.create(task_spec={})
        while asked - began < 3 * idle_s:
            previous, asked = asked, time.monotonic()
            if wire.post("/ping").status_code != 200:
                assert time.monotonic() - previous > idle_s, "a session has ended that was pinged in time"
                return False
            time.sleep(idle_s / 10)
        return True

    def test_a_call_that_is_under_way_keeps_it_too(self, serve: Serve, gate: Gate) -> None:
        idle_s = 0.2
        config = ConcurrencyConfig(max_concurrent_envs=8, session_timeout=idle_s)
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=None, concurrency_config=config)
        with OrsWire(server) as wire:
            wire.begin()
            results: list[dict[str, Any]] = []
            calling = threading.Thread(target=lambda: results.append(wire.call("add", amount=9)))
            calling.start()
            gate.wait_until_entered()
            threading.Timer(3 * idle_s, gate.opened.set).start()
            calling.join()
            assert results[0]["output"]["reward"] == 9

    def test_nothing_is_left_when_the_server_ends(self, riddles: Start) -> None:
        server = riddles()
        with OrsWire(server) as wire:
            wire.begin()
            server.stop()
        assert server.sessions.active_sessions == 0
