"""Sessions and connections of named tokens, when a token goes or has another role."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import Serve
from tests.support.mcp_agents import BareAgent
from tests.support.servers import RunningServer, V1Wire, closing, eventually

from openenv import traces
from openenv.core.client.generic import GenericEnvClient
from openenv.core.env_server.access.token_uses import TokenUse
from openenv.core.env_server.access.tokens import NamedToken, Role
from openenv.core.exceptions import OpenEnvError
from openenv.core.wire.names import public_name

PLAY, WATCH, OTHER = "p" * 24, "w" * 24, "o" * 24
STEP = {"action": {"amount": 1}}


def table(name: str, token: str, role: str) -> str:
    return f'[{name}]\ntoken = "{token}"\nrole = "{role}"\n'


KEPT = table("kept", OTHER, "operate")
REMOVED = KEPT
ROLES_SWAPPED = KEPT + table("trainer", PLAY, "watch") + table("dashboard", WATCH, "play")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(KEPT + table("trainer", PLAY, "play") + table("dashboard", WATCH, "watch"))
    return file


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "X-Forwarded-For": "203.0.113.9"}


def reset(wire: V1Wire) -> str:
    session = wire.open()
    assert wire.ask(wire.message("reset", session, seed=1))["type"] == "observation"
    return session


def clients_of(server: RunningServer) -> list[str]:
    with server.http(headers=headers(OTHER)) as http:
        return [row["client"] for row in http.get("/sessions").json()["sessions"]]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        (REMOVED, ("The token trainer was removed.", "The token dashboard was removed.")),
        (ROLES_SWAPPED, ("The token trainer has the role watch now.", "The token dashboard has the role play now.")),
    ],
    ids=["removed", "another role"],
)
def test_what_a_token_may_not_have_is_closed_with_the_reason_and_other_clients_play_on(
    serve: Serve, file: Path, tmp_path: Path, opened: ExitStack, changed: str, reasons: tuple[str, str]
) -> None:
    server = serve(tokens=file, traces=tmp_path / "traces.db", max_concurrent_envs=8)
    v1, kept = opened.enter_context(server.v1(headers(PLAY))), opened.enter_context(server.v1(headers(OTHER)))
    legacy, agent = (opened.enter_context(server.wire(path, headers(PLAY))) for path in ("/ws", "/mcp"))
    http = opened.enter_context(server.http(headers=headers(PLAY)))
    reset(v1)
    session = reset(kept)
    legacy.reset(seed=2)
    followed = public_name(session)
    follower = opened.enter_context(server.wire(f"/web/live/feed?session_id={followed}", headers(WATCH)))
    named = {"X-OpenEnv-Session": http.post("/reset").headers["X-OpenEnv-Session"]}
    streaming = BareAgent(http)
    streaming.connect()
    with http.stream("GET", "/mcp", headers=streaming.headers) as stream:
        file.write_text(changed)
        assert stream.read().decode().endswith(f": {reasons[0]}\n\n")
    for wire, reason in ((v1, reasons[0]), (legacy, reasons[0]), (agent, reasons[0]), (follower, reasons[1])):
        assert closing(wire) == (1008, reason)
    eventually(lambda: clients_of(server) == ["token:kept"], "the sessions have ended")
    assert http.post("/step", json=STEP, headers=named).status_code in (401, 403)
    assert kept.ask(kept.message("step", session, amount=2))["data"]["observation"]["total"] == 2
    server.stop()
    with traces.open(tmp_path / "traces.db") as recorded:
        assert {found.ending for found in recorded.episodes(traces.Filter(token_name="trainer"))} == {"revoked"}


def test_a_wider_role_closes_nothing(serve: Serve, file: Path, opened: ExitStack) -> None:
    server = serve(tokens=file)
    wire = opened.enter_context(server.v1(headers(PLAY)))
    session = reset(wire)
    dashboard = opened.enter_context(server.wire("/web/live/feed?session_id=0-", headers(WATCH)))
    assert "ended" in dashboard.receive()
    file.write_text(table("trainer", PLAY, "operate") + table("dashboard", WATCH, "operate"))
    http = opened.enter_context(server.http(headers=headers(PLAY)))
    eventually(lambda: http.get("/sessions").status_code == 200, "the file was read again")
    for amount in (1, 2):
        assert wire.ask(wire.message("step", session, amount=amount))["type"] == "observation"


def test_a_new_token_of_the_same_name_resumes_the_sessions_of_the_old_one(serve: Serve, file: Path) -> None:
    server = serve(tokens=file)
    with server.v1(headers(PLAY)) as old:
        session, token = old.open_with_token()
        old.ask(old.message("reset", session, seed=1))
        file.write_text(table("trainer", OTHER, "play"))
        assert closing(old) == (1008, "The token trainer was removed.")
    with server.v1(headers(OTHER)) as new:
        assert new.attach(session, token)["type"] == "attached"
        assert new.ask(new.message("step", session, amount=3))["data"]["observation"]["total"] == 3


def test_a_client_s_next_call_says_that_its_token_is_refused(serve: Serve, file: Path) -> None:
    server = serve(tokens=file)
    with GenericEnvClient(base_url=server.url, token=PLAY).sync() as client:
        client.reset()
        file.write_text(KEPT)
        eventually(lambda: clients_of(server) == [], "the session has ended")
        with pytest.raises(OpenEnvError, match="The token trainer was removed, and the session is lost"):
            client.step({"amount": 1})


@pytest.mark.parametrize(
    ("token", "role", "digest", "refusal"),
    [
        (None, Role.PLAY, None, "was removed"),
        (Role.PLAY, Role.PLAY, None, None),
        (Role.PLAY, Role.PLAY, b"new", None),
        (Role.PLAY, Role.PLAY, b"old", "was removed"),
        (Role.WATCH, Role.PLAY, b"new", "the role watch"),
        (Role.WATCH, None, b"new", None),
        (Role.PLAY, Role.OPERATE, b"new", "the role play"),
        (Role.OPERATE, Role.WATCH, None, None),
    ],
)
def test_what_may_stay_open(token: Role | None, role: Role | None, digest: bytes | None, refusal: str | None) -> None:
    named = None if token is None else NamedToken("trainer", b"new", token, None, None)
    reason = TokenUse("trainer", role, print, digest).refusal(named)
    assert reason is None if refusal is None else refusal in (reason or "")
