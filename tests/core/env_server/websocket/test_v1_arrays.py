"""Arrays on v1: as bytes for clients that read binary frames, as nested lists for all others, and the same for ever."""

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.support.environments.pictured import FILE, Gallery, Look, View, view
from tests.support.servers import RunningServer, Wire
from tests.support.walkers import crash_image
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.typed import TypedEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.types import State
from openenv.core.exceptions import ServerError
from openenv.core.wire.answers import written_outcome
from openenv.core.wire.arrays import ArrayWriter, byte_size, numpy_array, parts_of, with_arrays
from openenv.core.wire.results import outcome_of, picture_of

pytestmark = pytest.mark.timeout(180)

BINARY = {"X-OpenEnv-Features": "arrays"}
LISTS: dict[str, str] = {}


class GalleryEnv(TypedEnvClient[Look, View, State]):
    """A session with a gallery."""


def serve(**settings: Any) -> RunningServer:
    return RunningServer(create_fastapi_app(Gallery, Look, View, max_concurrent_envs=8, **settings))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module", params=["none", "process"])
def any_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with serve(isolation=request.param) as running:
        yield running


class Client:
    """A client of v1 on a bare socket, with one session."""

    def __init__(self, server: RunningServer, headers: Mapping[str, str]) -> None:
        connecting = connect(
            f"ws{server.url.removeprefix('http')}/ws",
            subprotocols=[Subprotocol("openenv.v1")],
            additional_headers=headers,
            proxy=None,
            max_size=None,
        )
        self._opened = ExitStack()
        self.socket: ClientConnection = self._opened.enter_context(connecting)
        self.session = ""
        self.token = ""

    def close(self) -> None:
        self._opened.close()

    def receive(self) -> tuple[dict[str, Any], bool]:
        """Return the next message, and whether it came in a binary frame."""
        frame = self.socket.recv(timeout=60)
        if isinstance(frame, str):
            return json.loads(frame), False
        (part,) = parts_of(frame)
        return with_arrays(json.loads(bytes(part.json)), part.buffers, numpy_array), True

    def ask(self, kind: str, number: int, data: dict[str, Any] | None = None) -> tuple[Any, bool]:
        named = {"session": self.session} if kind != "open" else {}
        given = {} if kind == "render" else {"data": data or {}}
        self.socket.send(json.dumps({"type": kind, "id": number, **named, **given}))
        message, is_binary = self.receive()
        assert message["id"] == number
        if kind == "open":
            self.session, self.token = message["session"], message["data"]["token"]
        return message["data"], is_binary

    def attach(self, other: "Client", answered: int) -> Any:
        self.session, self.token = other.session, other.token
        return self.ask("attach", 900, {"token": self.token, "answered": answered})[0]


def opened(server: RunningServer, headers: Mapping[str, str]) -> Client:
    client = Client(server, headers)
    client.ask("open", 1)
    return client


def assert_shows(data: dict[str, Any], brightness: int) -> None:
    shown = data["observation"]
    assert shown["pixels"].dtype == np.uint8
    assert shown["pixels"].tolist() == np.full((2, 4, 3), brightness).tolist()
    assert shown["depth"].tobytes() == struct.pack("<fff", brightness / 3, float("nan"), float("inf"))
    assert shown["file"] == FILE
    assert data["reward"] == brightness


def test_a_client_that_reads_them_gets_bytes(any_server: RunningServer) -> None:
    with closing(opened(any_server, BINARY)) as client:
        assert_shows({**client.ask("reset", 1)[0], "reward": 0}, 0)
        for step in range(2, 5):
            data, is_binary = client.ask("step", step, {"brightness": step})
            assert is_binary
            assert_shows(data, step)


def test_every_other_client_gets_nested_lists(any_server: RunningServer) -> None:
    with closing(opened(any_server, LISTS)) as client:
        client.ask("reset", 1)
        data, is_binary = client.ask("step", 2, {"brightness": 3})
    assert not is_binary
    assert data["observation"]["pixels"] == np.full((2, 4, 3), 3).tolist()
    assert data["observation"]["depth"] == [1.0, None, None]
    assert data["observation"]["file"].startswith("iVBORw0KGgo")
    with Wire(f"ws{any_server.url.removeprefix('http')}/ws", BINARY) as legacy:
        legacy.reset()
        assert legacy.step(brightness=3)["data"]["observation"] == data["observation"]
    with httpx.Client(base_url=any_server.url) as http:
        over_http = http.post("/step", json={"action": {"brightness": 3}}).json()
    assert over_http["observation"] == data["observation"]


def test_what_render_gives_is_a_file_too(server: RunningServer) -> None:
    encoded = base64.b64encode(FILE).decode()
    for headers, content in ((BINARY, FILE), (LISTS, encoded)):
        with closing(opened(server, headers)) as client:
            client.ask("reset", 1)
            data, is_binary = client.ask("render", 2)
        assert (data, is_binary) == ({"media_type": "image/png", "content": content}, headers == BINARY)


@pytest.mark.parametrize("arrays", [True, False])
def test_a_client_has_the_same_picture_in_both_ways(any_server: RunningServer, arrays: bool) -> None:
    with GenericEnvClient(base_url=any_server.url, arrays=arrays).sync() as env:
        env.reset()
        picture = env.render()
    assert picture == picture_of(FILE)
    assert picture is not None
    assert picture.image == FILE


def test_data_of_the_environment_are_never_taken_for_an_array(server: RunningServer) -> None:
    label = {"$array": ["uint8", [2], 0]}
    with closing(opened(server, BINARY)) as client:
        client.ask("reset", 1)
        data, is_binary = client.ask("step", 2, {"brightness": 3, "label": label})
    assert not is_binary
    assert data["observation"]["label"] == label
    assert data["observation"]["pixels"][0][0] == [3, 3, 3]


def test_an_answer_above_the_clients_limit_counts_its_arrays(server: RunningServer) -> None:
    size = byte_size(written_outcome(outcome_of(view(3)), ArrayWriter()))
    with closing(Client(server, BINARY)) as client:
        client.ask("open", 1, {"max_message_bytes": size - 1})
        client.ask("reset", 1)
        data, _ = client.ask("step", 2, {"brightness": 3})
    assert (data["code"], data["size"], data["may_have_happened"]) == ("TOO_LARGE", size, True)


@pytest.mark.parametrize("headers", [BINARY, LISTS], ids=["binary", "lists"])
def test_an_answer_is_repeated_as_the_new_connection_reads_it(server: RunningServer, headers: dict[str, str]) -> None:
    first = opened(server, BINARY)
    first.ask("reset", 1)
    first.socket.socket.close()
    with closing(Client(server, headers)) as client:
        assert client.attach(first, answered=0)["last_id"] == 1
        data, is_binary = client.ask("reset", 1)
        assert is_binary == bool(headers)
        data, is_binary = client.ask("step", 2, {"brightness": 9})
        assert is_binary == bool(headers)
        assert np.array_equal(data["observation"]["pixels"], np.full((2, 4, 3), 9))


def test_a_fork_goes_on_with_arrays(server: RunningServer) -> None:
    with closing(opened(server, BINARY)) as client:
        client.ask("reset", 1)
        client.ask("step", 2, {"brightness": 5})
        forked, _ = client.ask("fork", 3, {"count": 1})
        client.session = forked["sessions"][0]["session"]
        data, is_binary = client.ask("step", 1, {"brightness": 6})
    assert is_binary
    assert_shows(data, 6)


@pytest.mark.parametrize("headers", [BINARY, LISTS], ids=["binary", "lists"])
@pytest.mark.parametrize("before", [BINARY, LISTS], ids=["from-binary", "from-lists"])
def test_a_session_is_rebuilt_from_the_journal(tmp_path: Path, before: dict[str, str], headers: dict[str, str]) -> None:
    journal = tmp_path / "journal"
    with serve(journal=str(journal)) as server, closing(opened(server, before)) as client:
        client.ask("reset", 1, {"seed": 1})
        client.ask("step", 2, {"brightness": 7})
        copy = crash_image(journal)
    with serve(journal=str(copy)) as server, closing(Client(server, headers)) as again:
        assert again.attach(client, answered=1)["last_id"] == 2
        data, is_binary = again.ask("step", 2, {"brightness": 7})
        assert is_binary == bool(headers)
        if is_binary:
            assert_shows(data, 7)
        else:
            assert data["observation"]["pixels"] == np.full((2, 4, 3), 7).tolist()


def test_a_typed_client_has_arrays_by_its_classes(server: RunningServer) -> None:
    with GalleryEnv(base_url=server.url).sync() as env:
        env.reset()
        result = env.step(Look(brightness=3))
        assert isinstance(result.observation, View)
        assert not result.observation.pixels.flags.writeable  # it is backed by the frame
        assert result.observation.file == FILE


def test_a_generic_client_has_arrays_when_it_wants_them(server: RunningServer) -> None:
    with GenericEnvClient(base_url=server.url, arrays=True).sync() as env, env.vector(3) as vector:
        vector.reset()
        results = vector.step([{"brightness": slot} for slot in range(3)])
        for slot, result in enumerate(results):
            assert result is not None
            assert not isinstance(result, Exception)
            assert np.array_equal(result.observation["pixels"], np.full((2, 4, 3), slot))
    with GenericEnvClient(base_url=server.url).sync() as env:
        assert env.reset().observation["pixels"][0][0] == [0, 0, 0]


def test_an_error_beside_arrays_is_its_sessions_own(server: RunningServer) -> None:
    with GenericEnvClient(base_url=server.url, arrays=True).sync() as env, env.vector(2) as vector:
        vector.reset()
        good, bad = vector.step([{"brightness": 1}, {"brightness": "none"}])
        assert isinstance(bad, ServerError)
        assert good is not None
        assert not isinstance(good, Exception)
        assert good.observation["file"] == FILE
