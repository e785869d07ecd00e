"""Named tokens: what each role may do, what counts by name, and a file that changes while its server runs."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import Serve
from tests.support.servers import RunningServer, ServerProcess, V1Wire, closing, eventually
from tests.support.trace_locations import location, postgres
from websockets.exceptions import InvalidStatus

from openenv import traces
from openenv.core.env_server.access.tokens import Role, TokenFile, needed_role
from openenv.core.env_server.settings import ServerConfig
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Filter

__all__ = ["location", "postgres"]

PLAY, WATCH, OPERATE, OWN = "p" * 24, "w" * 24, "o" * 24, "s" * 24
STEP = {"action": {"amount": 1}}
OPEN_IDS = count(1000)


class Clock:
    """Stands still until it is set on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def table(name: str, token: str, role: str = "play", **limits: float) -> str:
    lines = [
        f"[{name}]",
        f'token = "{token}"',
        f'role = "{role}"',
        *(f"{key} = {value}" for key, value in limits.items()),
    ]
    return "\n".join([*lines, ""])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(table("trainer", PLAY) + table("dashboard", WATCH, "watch") + table("ops", OPERATE, "operate"))
    return file


def headers(token: str) -> dict[str, str]:
    """Headers of a client on another machine."""
    return {"Authorization": f"Bearer {token}", "X-Forwarded-For": "203.0.113.9"}


def statuses(server: RunningServer, token: str, *requests: tuple[str, str]) -> list[int]:
    with server.http(headers=headers(token)) as http:
        return [
            http.request(method, path, json=STEP if method == "POST" else None).status_code for method, path in requests
        ]


def ask_to_open(wire: V1Wire) -> dict[str, Any]:
    return wire.ask({"type": "open", "id": next(OPEN_IDS), "data": {}})


def sample(server: RunningServer | ServerProcess, name: str, token: str) -> float:
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics", trust_env=False).text)
    samples = [one for family in families for one in family.samples if one.name == name]
    found = [one.value for one in samples if one.labels["token"] == token]
    assert found, samples
    return sum(found)


class TestRoles:
    PLAYED = (("POST", "/reset"), ("POST", "/step"), ("GET", "/state"))
    WATCHED = (("GET", "/metrics"), ("GET", "/sessions"), ("GET", "/web/live/sessions"))
    DESCRIBED = (("GET", "/health"), ("GET", "/metadata"), ("GET", "/schema"), ("GET", "/openapi.json"))

    def test_each_role_over_http(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        for token, plays, watches in ((PLAY, 200, 403), (WATCH, 403, 200), (OPERATE, 200, 200)):
            assert statuses(server, token, *self.PLAYED) == [plays] * 3
            assert statuses(server, token, *self.WATCHED) == [watches] * 3
            assert statuses(server, token, *self.DESCRIBED) == [200] * 4
        assert statuses(server, "x" * 24, *self.PLAYED, *self.WATCHED) == [401] * 6

    def test_the_sentence_names_the_role_and_no_token(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        with server.http(headers=headers(WATCH)) as http:
            refused = http.post("/reset")
        assert refused.json()["code"] == "UNAUTHORIZED"
        for word in ("play or operate", "dashboard", "role watch"):
            assert word in refused.json()["detail"]
        assert WATCH not in refused.text

    def test_each_role_over_websockets(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        for token, path, status in (
            (WATCH, "/ws", 403),
            (WATCH, "/mcp", 403),
            (PLAY, "/web/live/feed?session_id=0-", 403),
        ):
            with pytest.raises(InvalidStatus) as raised, server.wire(path, headers(token)):
                pass
            assert raised.value.response.status_code == status
        with server.v1(headers(PLAY)) as wire:
            wire.open()
        with server.wire("/web/live/feed?session_id=0-", headers(WATCH)) as feed:
            assert "ended" in feed.receive()

    def test_a_fork_of_another_client_s_session_is_for_operators(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        fork = ("POST", "/web/live/fork")
        for token in (PLAY, WATCH):
            assert statuses(server, token, fork) == [403]
        assert statuses(server, OPERATE, fork) != [403]

    def test_a_role_holds_below_a_prefix_of_a_proxy(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        with server.http(headers={"Authorization": f"Bearer {PLAY}", "X-Forwarded-Prefix": "/env"}) as http:
            for path in ("/sessions", "/env/sessions", "/env/metrics", "/env/web/live/sessions", "/sessions/"):
                assert http.get(path).status_code == 403, path

    def test_a_role_holds_on_this_machine_for_those_that_show_a_token(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        with server.http(headers={"Authorization": f"Bearer {WATCH}"}) as http, server.http() as bare:
            assert http.post("/reset").status_code == 403
            assert bare.post("/reset").status_code == 200

    def test_the_server_s_one_token_allows_all_beside_them(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file, token=OWN)
        assert statuses(server, OWN, *self.PLAYED, *self.WATCHED) == [200] * 6
        assert statuses(server, WATCH, *self.PLAYED[:1], *self.WATCHED) == [403, 200, 200, 200]

    def test_always_asks_this_machine_for_one_too(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file, auth="always")
        with server.http() as bare, server.http(headers={"X-API-Key": PLAY}) as http:
            assert bare.post("/reset").status_code == 401
            assert http.post("/reset").status_code == 200

    @pytest.mark.parametrize(
        ("method", "path", "role"),
        [
            ("GET", "/", None),
            ("HEAD", "/metadata", None),
            ("POST", "/web/view", None),
            ("GET", "/1/web/traces/episodes/5", Role.WATCH),
            ("GET", "/web/run/curves", Role.WATCH),
            ("GET", "/web/html", Role.WATCH),
            ("POST", "/web/traces/episodes/1-1/label", Role.OPERATE),
            ("DELETE", "/web/traces/episodes/5", Role.OPERATE),
            ("POST", "/metrics", Role.OPERATE),
            ("POST", "/", Role.PLAY),
            ("DELETE", "/session", Role.PLAY),
            ("GET", "/an/author/s/route", Role.PLAY),
        ],
    )
    def test_the_role_of_a_request(self, method: str, path: str, role: Role | None) -> None:
        assert needed_role({"type": "http", "method": method, "path": path}) is role


class TestLimits:
    def test_sessions_count_by_name_and_not_by_address(self, serve: Serve, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text(table("small", PLAY, max_sessions=2) + table("other", WATCH))
        server = serve(tokens=file, max_sessions_per_client=1)
        elsewhere = {"Authorization": f"Bearer {PLAY}", "X-Forwarded-For": "198.51.100.7"}
        with server.v1(headers(PLAY)) as wire, server.v1(elsewhere) as same, server.v1(headers(WATCH)) as other:
            wire.open()
            same.open()
            refused = ask_to_open(wire)
            assert refused["data"]["scope"] == "client"
            assert (refused["data"]["active_sessions"], refused["data"]["max_sessions"]) == (2, 2)
            other.open()
            assert ask_to_open(other)["data"]["max_sessions"] == 1, "the server's, as it has none"

    def test_messages_count_over_all_connections_of_a_name(self, serve: Serve, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text(table("slow", PLAY, max_messages_per_s=0.001) + table("free", WATCH))
        server = serve(tokens=file)
        with server.http(headers=headers(PLAY)) as http, server.wire(headers=headers(PLAY)) as wire:
            assert http.post("/reset").status_code == 200
            assert wire.reset()["data"]["code"] == "RATE_LIMITED"
            assert http.get("/schema").status_code == 429
        assert statuses(server, WATCH, *[("POST", "/reset")] * 5) == [200] * 5

    def test_the_name_stands_in_metrics_and_in_the_table(self, serve: Serve, file: Path) -> None:
        server = serve(tokens=file)
        with server.v1(headers(PLAY)) as wire, server.http() as http:
            wire.open_many(2)
            assert {row["client"] for row in http.get("/sessions").json()["sessions"]} == {"token:trainer"}
            assert sample(server, "openenv_token_sessions", "trainer") == 2
        statuses(server, WATCH, ("POST", "/reset"), ("POST", "/step"))
        assert sample(server, "openenv_token_sessions_opened_total", "trainer") == 2
        assert sample(server, "openenv_token_refused_total", "dashboard") == 2
        assert sample(server, "openenv_token_refused_total", "ops") == 0


class TestTraces:
    def test_each_episode_says_by_which_token_it_was_played(self, serve: Serve, file: Path, location: str) -> None:
        server = serve(tokens=file, traces=location)
        with server.v1(headers(PLAY)) as wire, server.wire("/ws", headers(OPERATE)) as legacy, server.v1() as bare:
            for socket in (wire, bare):
                socket.ask(socket.message("reset", socket.open(), seed=1))
            legacy.reset(seed=2)
        for request in ("/reset", "/step"):  # in sessions of their own
            assert statuses(server, OPERATE, ("POST", request)) == [200]
        server.stop()
        with traces.open(location) as opened:
            played = Counter(found.token_name for found in opened.episodes())
            assert played == {"trainer": 1, "ops": 3, None: 1}
            assert opened.count(Filter(token_name="ops")) == 3
            assert opened.token_names() == ["ops", "trainer"]

    def test_a_fork_is_that_of_its_own_client(self, serve: Serve, file: Path, tmp_path: Path) -> None:
        server = serve(tokens=file, traces=tmp_path / "traces.db")
        with server.v1(headers(PLAY)) as wire:
            wire.ask(wire.message("reset", wire.open(), seed=1))
            with server.http(headers=headers(OPERATE)) as http:
                (row,) = http.get("/sessions").json()["sessions"]
                assert http.post("/web/live/fork", headers={"X-OpenEnv-Session": row["session"]}).status_code == 200
        server.stop()
        with traces.open(tmp_path / "traces.db") as opened:
            assert {found.token_name for found in opened.episodes()} == {"trainer", "ops"}


class TestChanges:
    def test_a_running_server_takes_the_new_token_and_not_the_old(self, serve: Serve, tmp_path: Path) -> None:
        """As Kubernetes swaps a secret: the file is a link to another folder from one moment to the next."""
        for number, token in enumerate((PLAY, WATCH)):
            (tmp_path / f"v{number}").mkdir()
            (tmp_path / f"v{number}/tokens.toml").write_text(table("trainer", token))
        (tmp_path / "data").symlink_to("v0")
        server = serve(tokens=tmp_path / "data" / "tokens.toml")
        assert statuses(server, PLAY, ("POST", "/reset")) == [200]
        (tmp_path / "next").symlink_to("v1")
        (tmp_path / "next").replace(tmp_path / "data")
        eventually(lambda: statuses(server, WATCH, ("POST", "/reset")) == [200], "the new token serves")
        assert statuses(server, PLAY, ("POST", "/reset")) == [401]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda file: file.unlink(),
            lambda file: file.write_text(""),
            lambda file: file.write_text("[trainer"),
            lambda file: file.write_bytes(b"\xff"),
            lambda file: file.write_text(table("trainer", "n" * 24, "admin")),
        ],
    )
    def test_a_bad_file_leaves_the_tokens_and_is_logged_once(
        self, file: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], Any]
    ) -> None:
        clock = Clock()
        tokens = TokenFile(file, clock)
        good = file.read_text()
        spoil(file)
        with caplog.at_level(logging.INFO, "openenv"):
            for _ in range(3):
                clock.now += 1
                assert tokens.find(PLAY.encode()) is not None
            assert len(caplog.records) == 1
            assert "stay as they were" in caplog.text
            file.write_text(good + table("late", "n" * 24))
            clock.now += 1
            assert tokens.names == ["trainer", "dashboard", "ops", "late"]
        assert not any(token in caplog.text for token in (PLAY, WATCH, OPERATE, "n" * 24))

    def test_it_is_read_at_most_once_a_second(self, file: Path) -> None:
        clock = Clock()
        tokens = TokenFile(file, clock)
        file.write_text(table("late", WATCH))
        clock.now += 0.9
        assert "trainer" in tokens.names
        clock.now += 0.1
        assert tokens.names == ["late"]


class TestFile:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "got none"),
            ("a = 1", "table for each name"),
            ('["a b"]\n', "letters, digits"),
            ("[a]\nrole = 'play'", "either token or sha256"),
            (f"[a]\nrole = 'play'\ntoken = '{PLAY}'\nsha256 = '{'0' * 64}'", "and not both"),
            (f"[a]\ntoken = '{PLAY}'", "a.role: Field required"),
            (f"[a]\nrole = 'admin'\ntoken = '{PLAY}'", "'play', 'watch' or 'operate'"),
            (f"[a]\nrole = 'play'\ntoken = '{PLAY} '", "a.token"),
            (f"[a]\nrole = 'play'\nsha256 = '{PLAY}'", "a.sha256"),
            (table("a", PLAY, max_sessions=0), "a.max_sessions"),
            (table("a", PLAY, max_messages_per_s=float("inf")), "a.max_messages_per_s"),
            (table("a", PLAY, max_session=1), "a.max_session: Extra"),
            (table("a", PLAY) + table("b", PLAY), "a and b share one"),
            (f"[a]\ntoken = '{PLAY}", "not valid TOML"),
        ],
    )
    def test_one_that_is_not_valid_starts_no_server_and_shows_no_token(
        self, serve: Serve, tmp_path: Path, text: str, message: str
    ) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=message) as raised:
            serve(tokens=file)
        assert str(file) in str(raised.value)
        assert PLAY not in str(raised.value)

    def test_a_digest_stands_for_its_token(self, serve: Serve, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text(f'[trainer]\nsha256 = "{sha256(PLAY.encode()).hexdigest()}"\nrole = "play"\n')
        server = serve(tokens=file)
        assert statuses(server, PLAY, ("POST", "/reset")) == [200]
        assert statuses(server, sha256(PLAY.encode()).hexdigest(), ("POST", "/reset")) == [401]

    def test_it_opens_a_server_to_others(self, file: Path) -> None:
        assert ServerConfig(tokens=str(file)).admits_others


def test_each_worker_knows_the_names_and_closes_what_a_removed_token_has(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_TOKENS", str(file))
    with ServerProcess("worker_server.py", "2", "64", "5") as server:
        session = httpx.post(f"{server.url}/reset", headers=headers(PLAY), trust_env=False).headers["X-OpenEnv-Session"]
        for token, status in ((PLAY, 200), (WATCH, 403)):
            named = {**headers(token), "X-OpenEnv-Session": session}
            for _ in range(4):  # of fresh connections, which go to both workers
                assert httpx.post(f"{server.url}/step", json=STEP, headers=named, trust_env=False).status_code == status
        (row,) = httpx.get(f"{server.url}/sessions", trust_env=False).json()["sessions"]
        assert row["client"] == "token:trainer"
        assert sample(server, "openenv_token_refused_total", "dashboard") == 4
        assert sample(server, "openenv_token_sessions", "trainer") == 1
        with ExitStack() as wires:
            opened = [wires.enter_context(V1Wire(f"ws{server.url[4:]}/ws", headers(PLAY))) for _ in range(4)]
            for wire in opened:
                wire.open()
            file.write_text(table("dashboard", WATCH, "watch"))
            assert {closing(wire) for wire in opened} == {(1008, "The token trainer was removed.")}
        assert httpx.get(f"{server.url}/sessions", trust_env=False).json()["sessions"] == []
