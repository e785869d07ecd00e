"""Sessions of ORS on a server of several workers: each request reaches the one that holds its session."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.ors_wire import events_of
from tests.support.servers import ServerProcess

WORKERS = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    stopper: Path = tmp_path_factory.mktemp("workers") / "stop"
    with ServerProcess("worker_server.py", str(WORKERS), "64", "5", str(stopper)) as server:
        yield server


def client_of(server: ServerProcess, sid: str = "") -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, timeout=60, headers={"X-Session-ID": sid})


def name_over(client: httpx.Client) -> str:
    return events_of(client.post("/create_session").text)[0].data


def ask(server: ServerProcess, method: str, path: str, sid: str, body: Any = None) -> httpx.Response:
    """Ask over a connection of its own, which any worker may get."""
    with client_of(server, sid) as client:
        return client.request(method, path, json=body)


def observed(response: httpx.Response) -> dict[str, Any]:
    (end,) = [event for event in events_of(response.text) if event.event == "end"]
    shown: dict[str, Any] = json.loads(json.loads(end.data)["output"]["blocks"][0]["text"])
    return shown


def test_an_episode_is_played_over_many_connections(server: ServerProcess) -> None:
    with ExitStack() as held:  # each connection goes to the worker that has fewest
        names = [name_over(held.enter_context(client_of(server))) for _ in range(2 * WORKERS)]
    assert {name.partition(".")[0] for name in names} == set(map(str, range(WORKERS)))
    processes = {}
    for name in names:
        assert ask(server, "POST", "/create", name, {"task_spec": {}}).json() == {"sid": name}
        processes[name] = json.loads(ask(server, "GET", "/prompt", name).json()[0]["text"])["process"]
    for amount in (1, 2):
        for name in names:
            body = {"name": "do", "input": {"amount": amount}}
            shown = observed(ask(server, "POST", "/call", name, body))
            assert (shown["process"], shown["total"]) == (processes[name], 1 if amount == 1 else 3)
    for name in names:
        assert ask(server, "POST", "/ping", name).status_code == 200
        ask(server, "POST", "/delete", name)
        assert ask(server, "GET", "/prompt", name).status_code == 410


def test_a_name_of_the_clients_own_would_not_be_found_again(server: ServerProcess) -> None:
    response = ask(server, "POST", "/create", "mine", {"task_spec": {}})
    assert response.status_code == 400
    assert "that /create_session has made" in response.json()["detail"]
