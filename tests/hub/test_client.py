"""Asking the Hub: patience where it helps, and errors that say what to do."""

import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import constants
from tests.support.services.hub_server import TOKEN, Answer, Fault, HubServer

from openenv._extras import install_command
from openenv.core.exceptions import HubError
from openenv.hub.client import Hub

WHOAMI = "GET /api/whoami-v2"


def test_who_is_asked_for(hub: HubServer) -> None:
    assert Hub().user() == "ada"
    assert Hub(token=TOKEN, endpoint=hub.url).page_of("ada/x") == f"{hub.url}/spaces/ada/x"
    assert Hub().page_of("ada/x", "model") == f"{hub.url}/ada/x"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "does not know your token.*hf auth login"),
        (402, "wants to be paid"),
        (403, "may not do that.*settings/tokens"),
        (409, "another account"),
        (412, "try again"),
        (413, "--exclude"),
        (418, "the Hub refuses"),
    ],
)
def test_what_the_hub_refuses_is_not_asked_again(hub: HubServer, status: int, said: str) -> None:
    hub.add("ada/x", {})
    hub.faults.append(Fault("GET /api/spaces/ada/x", Answer(status, {"error": "Sorry about that."}), times=9))
    api = Hub().api
    with pytest.raises(HubError, match=rf"(?s)Could not look: .*{said}.*status {status}.*Sorry about that") as caught:
        Hub().request("look", partial(api.space_info, "ada/x"))
    assert (caught.value.status, hub.faults[0].times) == (status, 8)


def test_a_repository_that_the_hub_refuses_to_show_is_not_taken_for_missing(hub: HubServer) -> None:
    assert Hub().find("ada/x") is None
    hub.add("ada/x", {})
    hub.faults.append(Fault("GET /api/spaces/ada/x", Answer(403, {"error": "Sorry about that."})))
    with pytest.raises(HubError, match=r"Could not look for ada/x: .*status 403"):
        Hub().find("ada/x")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, None])
def test_what_passes_is_asked_again(hub: HubServer, impatient: None, status: int | None) -> None:
    hub.faults.append(Fault(WHOAMI, None if status is None else Answer(status, {}), times=4))
    assert Hub().user() == "ada"
    assert hub.faults[0].times == 0


def test_what_does_not_pass_is_told(hub: HubServer, impatient: None) -> None:
    hub.faults.append(Fault(WHOAMI, Answer(503, {"error": "Over capacity"}), times=99))
    with pytest.raises(HubError, match=r"in trouble.*503.*Over capacity"):
        Hub().user()
    assert hub.lines().count(WHOAMI) == 5


def test_what_must_not_be_done_twice_is_not(hub: HubServer, impatient: None) -> None:
    hub.faults.append(Fault(WHOAMI, None, times=1))
    client = Hub()
    with pytest.raises(HubError, match="can't be reached"):
        client.request("ask once", client.api.whoami, repeatable=False)
    assert hub.lines().count(WHOAMI) == 1


def test_the_hub_says_how_long_to_wait(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("openenv.hub.client.time.sleep", waited.append)
    hub.faults.append(Fault(WHOAMI, Answer(429, {}, {"Retry-After": "7"}), times=2))
    assert Hub().user() == "ada"
    assert waited == [7.0, 7.0]
    hub.faults.append(Fault(WHOAMI, Answer(429, {}, {"Retry-After": "3600"})))
    with pytest.raises(HubError, match=r"too many requests of yours; come back in 3600 s"):
        Hub().user()
    assert waited == [7.0, 7.0]


def test_nobody_there(impatient: None, hub: HubServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HubError, match=rf"127\.0\.0\.1:{port} can't be reached.*HF_ENDPOINT") as caught:
        Hub(endpoint=f"http://127.0.0.1:{port}").user()
    assert caught.value.status is None


def test_what_answers_is_no_hub(hub: HubServer) -> None:
    hub.faults.append(Fault(WHOAMI, Answer(200, b"<html>Welcome</html>")))
    with pytest.raises(HubError, match="is no Hub"):
        Hub().user()


def test_nobody_is_asked_to_log_in_where_nobody_is(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Hub().log_in(may_prompt=False)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match=r"`hf auth login`, or set HF_TOKEN"):
        Hub().log_in(may_prompt=False)
    Hub(token="given").log_in(may_prompt=False)
    assert not Path(constants.HF_TOKEN_PATH).exists()


def test_a_person_is_asked_to_log_in(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("openenv.hub.client.login", partial(monkeypatch.setenv, "HF_TOKEN", TOKEN))
    Hub().log_in(may_prompt=True)
    assert Hub().user() == "ada"


def test_a_login_that_comes_to_nothing(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("openenv.hub.client.login", partial(int, "no token"))
    with pytest.raises(HubError, match=r"Could not log in to the Hub: .*'no token'"):
        Hub().log_in(may_prompt=True)


_WITHOUT_THE_LIBRARY = """
import sys
sys.modules["huggingface_hub"] = None
sys.argv = ["openenv", *sys.argv[1:]]
from openenv.cli.__main__ import main
main()
"""


@pytest.mark.parametrize("command", [["pull", "ada/go"], ["play", "ada/go", "--trust-remote-code"]])
def test_without_the_library_the_extra_is_named(command: list[str]) -> None:
    program = [sys.executable, "-c", _WITHOUT_THE_LIBRARY, *command]
    ended = subprocess.run(program, capture_output=True, text=True)
    assert ended.returncode == (2 if "play" in command else 1), "a Space that can't be had is no target"
    assert install_command("hub") in ended.stderr
    assert ended.stderr.startswith("Error: The Hub needs huggingface_hub")
