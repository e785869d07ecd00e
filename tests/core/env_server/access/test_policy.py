"""Who may use a server: real servers, and clients that send exactly the headers that a test gives them."""

import json
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Gate, GatedEnvironment, Total
from tests.support.servers import RunningServer, ServerProcess, Wire, eventually

from openenv.core.env_server.access.guard import AccessMiddleware
from openenv.core.env_server.access.policy import AccessPolicy, needs_new_token, new_token
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.settings import ServerConfig, ServerSettings
from openenv.core.exceptions import ConfigurationError

TOKEN = "correct-horse-battery-staple"
ELSEWHERE = "X-Forwarded-For: 203.0.113.9"
HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


class Answer:
    """The answer to a raw request."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = "" if response.status == 101 else response.read().decode()

    @property
    def detail(self) -> str:
        """The server's sentence."""
        body = json.loads(self.text)
        assert body["code"] == "UNAUTHORIZED"
        detail: str = body["detail"]
        return detail


def send(server: RunningServer | ServerProcess, start: str, *headers: str, body: str = "") -> Answer:
    """Send one request as it is; nothing is added to it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall("\r\n".join([start, *headers, "", body]).encode("latin-1"))
        response = HTTPResponse(raw)
        response.begin()
        return Answer(response)


def get(server: RunningServer, *headers: str, path: str = "/schema") -> Answer:
    return send(server, f"GET {path} HTTP/1.1", *headers)


def post(server: RunningServer | ServerProcess, *headers: str, path: str = "/reset") -> Answer:
    return send(server, f"POST {path} HTTP/1.1", "Content-Length: 0", *headers)


def shake_hands(server: RunningServer, *headers: str) -> Answer:
    return send(server, "GET /ws HTTP/1.1", *HANDSHAKE, *headers)


WAYS = pytest.mark.parametrize("way", [post, shake_hands], ids=["http", "websocket"])


def succeeded(answer: Answer) -> bool:
    return answer.status in (101, 200)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server without settings."""
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=64)) as server:
        yield server


@pytest.fixture(scope="module")
def token_server() -> Iterator[RunningServer]:
    """A server that has a token."""
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN)) as server:
        yield server


@pytest.fixture(
    scope="module",
    params=[{}, {"forwarded_allow_ips": "*"}, {"proxy_headers": False}],
    ids=["trusting this machine", "trusting anybody", "trusting nobody"],
)
def proxied_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """A server whose uvicorn believes what some proxies say."""
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total), **request.param) as server:
        yield server


class TestHost:
    @WAYS
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "localhost:{port}",
            "LocalHost:1",
            "localhost.:{port}",
            "app.localhost:{port}",
            "127.0.0.1",
            "127.0.0.1:{port}",
            "127.8.9.10:80",
            "[::1]",
            "[::1]:{port}",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]:{port}",
        ],
    )
    def test_what_names_this_machine(self, server: RunningServer, way: Any, host: str) -> None:
        assert succeeded(way(server, f"Host: {host.format(port=server.port)}"))

    @WAYS
    @pytest.mark.parametrize(
        "host",
        [
            "evil.com",
            "evil.com:{port}",
            "localhost.evil.com",
            "localhost.evil.com:{port}",
            "127.0.0.1.evil.com",
            "127.0.0.1.nip.io:{port}",
            "evillocalhost",
            "notlocalhost:{port}",
            "localhost..",
            "0.0.0.0:{port}",
            "10.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "[::2]",
            "[::ffff:10.0.0.1]",
            "[::1",
            "::1",
            "localhost:port",
            "localhost:1:2",
            "localhost:999999",
            "localhost@evil.com",
            "user@localhost",
            "user:password@localhost",
            "localhost/evil",
            "localhost evil.com",
            "localhost,evil.com",
            "localhost\\evil.com",
            "localhost\xa0",
            "l\xf6calhost",
            "",
        ],
    )
    def test_what_does_not(self, server: RunningServer, way: Any, host: str) -> None:
        answer = way(server, f"Host: {host.format(port=server.port)}")
        assert answer.status == 403
        assert "Expected a Host header that names this machine" in answer.detail
        assert "allowed_hosts=[...], OPENENV_ALLOWED_HOSTS or `openenv serve --allowed-host`" in answer.detail

    @WAYS
    def test_a_long_one_is_not_sent_back_whole(self, server: RunningServer, way: Any) -> None:
        assert len(way(server, f"Host: {'a' * 5_000}").text) < 600

    @WAYS
    @pytest.mark.parametrize("hosts", [[], ["localhost", "evil.com"], ["evil.com", "localhost"], ["localhost"] * 2])
    def test_one_there_must_be(self, server: RunningServer, way: Any, hosts: list[str]) -> None:
        # h11 refuses them before we do; other HTTP parsers of uvicorn's do not.
        assert way(server, *(f"Host: {host}" for host in hosts)).status in (400, 403)

    def test_http_1_0_without_one(self, server: RunningServer) -> None:
        assert "got 0" in send(server, "GET /schema HTTP/1.0").detail

    @pytest.mark.parametrize("target", ["http://localhost/schema", "http://evil.com/schema"])
    def test_a_whole_url_as_the_target_changes_nothing(self, server: RunningServer, target: str) -> None:
        assert send(server, f"GET {target} HTTP/1.1", "Host: evil.com").status == 403

    @WAYS
    def test_further_names(self, serve: Serve, way: Any) -> None:
        server = serve(allowed_hosts=["Env.example.com", "*.internal", "192.0.2.7"])
        for host in ("env.example.com", "ENV.EXAMPLE.COM:{port}", "a.internal", "a.b.internal", "192.0.2.7:{port}"):
            assert succeeded(way(server, f"Host: {host.format(port=server.port)}")), host
        for host in ("a.env.example.com", "example.com", "internal", "a-internal", "evilinternal", "192.0.2.70"):
            assert way(server, f"Host: {host}").status == 403, host

    def test_further_names_from_the_environment(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_ALLOWED_HOSTS", "one.example.com, two.example.com,")
        server = serve()
        assert get(server, "Host: two.example.com").status == 200
        assert get(server, "Host: ").status == 403

    @pytest.mark.parametrize("host", ["http://example.com", "example.com:80", "*", "a*.com", "a b", "*.*.com"])
    def test_settings_that_are_no_names(self, host: str) -> None:
        with pytest.raises(ConfigurationError, match="Expected an allowed host to be a name without scheme and port"):
            create_fastapi_app(CounterEnvironment, Add, Total, allowed_hosts=[host])


class TestOrigin:
    @WAYS
    @pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "app.localhost:{port}", "[::1]:{port}"])
    def test_our_own(self, server: RunningServer, way: Any, host: str) -> None:
        host = host.format(port=server.port)
        assert succeeded(way(server, f"Host: {host}", f"Origin: http://{host}"))

    @pytest.mark.parametrize(("host", "origin"), [("localhost:80", "localhost"), ("localhost", "localhost:80")])
    def test_the_usual_port_goes_without_saying(self, server: RunningServer, host: str, origin: str) -> None:
        assert post(server, f"Host: {host}", f"Origin: http://{origin}").status == 200

    @WAYS
    @pytest.mark.parametrize(
        "origin",
        [
            "null",
            "",
            "http://evil.com",
            "http://evil.com:{port}",
            "https://127.0.0.1:{port}",
            "ws://127.0.0.1:{port}",
            "http://127.0.0.1",
            "http://127.0.0.1:1",
            "http://localhost:{port}",
            "http://127.0.0.1.evil.com:{port}",
            "http://127.0.0.1:{port}@evil.com",
            "http://evil.com@127.0.0.1:{port}",
            "http://127.0.0.1:{port}/",
            "http://127.0.0.1:{port} http://evil.com",
            "http://127.0.0.1:{port}, http://evil.com",
            "file://",
            "127.0.0.1:{port}",
            "chrome-extension://abcdefghijklmnop",
        ],
    )
    def test_any_other(self, server: RunningServer, way: Any, origin: str) -> None:
        answer = way(server, f"Host: 127.0.0.1:{server.port}", f"Origin: {origin.format(port=server.port)}")
        assert answer.status == 403
        assert "Expected a request of this server's own pages" in answer.detail
        assert "allowed_origins=[...], OPENENV_ALLOWED_ORIGINS or `openenv serve --allowed-origin`" in answer.detail

    @WAYS
    def test_there_is_one_at_most(self, server: RunningServer, way: Any) -> None:
        host = f"127.0.0.1:{server.port}"
        assert way(server, f"Host: {host}", f"Origin: http://{host}", f"Origin: http://{host}").status in (400, 403)

    @WAYS
    def test_the_name_of_a_host_is_checked_whatever_the_origin(self, server: RunningServer, way: Any) -> None:
        assert way(server, "Host: evil.com", "Origin: http://evil.com").status == 403

    @WAYS
    def test_origins_that_are_allowed(self, serve: Serve, way: Any) -> None:
        server = serve(allowed_origins=["https://Lab.example.com", "http://localhost:3000", "chrome-extension://abc"])
        here = f"Host: localhost:{server.port}"
        for origin in ("https://lab.example.com", "http://localhost:3000", "chrome-extension://abc"):
            assert succeeded(way(server, here, f"Origin: {origin}")), origin
        for origin in ("http://lab.example.com", "https://lab.example.com:8443", "http://localhost:3001", "null"):
            assert way(server, here, f"Origin: {origin}").status == 403, origin

    def test_pages_of_an_allowed_origin_may_read(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_ALLOWED_ORIGINS", "https://lab.example.com:443,http://localhost:3000")
        server = serve()
        page = (f"Host: localhost:{server.port}", "Origin: https://lab.example.com")
        answer = post(server, *page)
        assert answer.headers["Access-Control-Allow-Origin"] == "https://lab.example.com"
        assert "X-OpenEnv-Session" in answer.headers["Access-Control-Expose-Headers"]
        asks = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
        before = send(server, "OPTIONS /step HTTP/1.1", *page, *asks)
        assert (before.status, before.headers["Access-Control-Allow-Origin"]) == (200, "https://lab.example.com")
        other = send(server, "OPTIONS /step HTTP/1.1", page[0], "Origin: http://evil.com", *asks)
        assert "Access-Control-Allow-Origin" not in other.headers

    @pytest.mark.parametrize("workers", [1, 2])
    def test_pages_elsewhere_may_ask_before_they_show_a_token(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, workers: int
    ) -> None:
        monkeypatch.setenv("OPENENV_ALLOWED_ORIGINS", "https://lab.example.com")
        monkeypatch.setenv("OPENENV_TOKEN", TOKEN)
        page = ("Host: env.example.com", "Origin: https://lab.example.com", ELSEWHERE)
        asks = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
        with ExitStack() as servers:
            server: RunningServer | ServerProcess = serve()
            if workers > 1:
                server = servers.enter_context(ServerProcess("worker_server.py", str(workers), "8", "5"))
            for _ in range(workers):  # each answers one
                before = send(server, "OPTIONS /step HTTP/1.1", *page, *asks)
                assert (before.status, before.headers["Access-Control-Allow-Origin"]) == (
                    200,
                    "https://lab.example.com",
                )
                refused = post(server, *page)
                assert refused.status == 401
                answered = post(server, *page, f"Authorization: Bearer {TOKEN}")
                assert answered.status == 200
                for answer in (refused, answered):
                    assert answer.headers.get_all("Access-Control-Allow-Origin") == ["https://lab.example.com"]
                other = send(server, "OPTIONS /step HTTP/1.1", page[0], "Origin: http://evil.com", ELSEWHERE, *asks)
                assert "Access-Control-Allow-Origin" not in other.headers
                assert send(server, "OPTIONS /step HTTP/1.1", *page).status == 401, "this is no such question"

    def test_without_allowed_origins_nobody_else_is_told_anything(self, server: RunningServer) -> None:
        answer = send(
            server,
            "OPTIONS /step HTTP/1.1",
            f"Host: localhost:{server.port}",
            "Origin: http://evil.com",
            "Access-Control-Request-Method: POST",
        )
        assert answer.status == 403
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]

    @pytest.mark.parametrize("origin", ["example.com", "https://example.com/", "*", "null", "https://*.example.com"])
    def test_settings_that_are_no_origins(self, origin: str) -> None:
        with pytest.raises(ConfigurationError, match="Expected an allowed origin to be a scheme, a name"):
            create_fastapi_app(CounterEnvironment, Add, Total, allowed_origins=[origin])

    @pytest.mark.parametrize(
        ("fetch", "passes"),
        [
            (("none", "navigate", "document"), True),
            (("same-origin", "no-cors", "image"), True),
            (("cross-site", "navigate", "document"), True),  # a link that a person follows
            (("cross-site", "no-cors", "image"), False),
            (("cross-site", "no-cors", "empty"), False),
            (("cross-site", "navigate", "iframe"), False),
            (("same-site", "no-cors", "script"), False),
        ],
    )
    def test_what_a_browser_says_where_it_names_no_origin(
        self, server: RunningServer, fetch: tuple[str, str, str], passes: bool
    ) -> None:
        names = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")
        headers = [f"{name}: {value}" for name, value in zip(names, fetch, strict=True)]
        answer = get(server, f"Host: localhost:{server.port}", *headers, path="/state")
        assert answer.status == (200 if passes else 403)


class TestToken:
    """Of peers that do not come over loopback; here through a proxy, and in test_policy_network.py for real."""

    @WAYS
    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    def test_the_right_one(self, token_server: RunningServer, way: Any, scheme: str) -> None:
        # Host and Origin are those of a proxy; who has the token may use any.
        page = ("Host: env.example.com", "Origin: https://example.com", ELSEWHERE)
        assert succeeded(way(token_server, *page, f"Authorization: {scheme} {TOKEN}"))

    @WAYS
    def test_the_right_one_as_an_api_key(self, token_server: RunningServer, way: Any) -> None:
        assert succeeded(way(token_server, "Host: env.example.com", ELSEWHERE, f"X-API-Key: {TOKEN}"))

    @WAYS
    @pytest.mark.parametrize("authorization", ["Bearer of-the-proxy", "Basic eA==", ""])
    def test_the_right_one_beside_a_proxy_s(self, token_server: RunningServer, way: Any, authorization: str) -> None:
        headers = (f"X-API-Key: {TOKEN}", f"Authorization: {authorization}")
        assert succeeded(way(token_server, "Host: env.example.com", ELSEWHERE, *headers))
        assert succeeded(way(token_server, f"Host: localhost:{token_server.port}", *headers))

    @pytest.mark.parametrize(
        "keys",
        [
            ("X-API-Key: x",),
            ("X-API-Key: ",),
            (f"X-API-Key: {TOKEN}", "X-API-Key: x"),
            ("X-API-Key: x", "Authorization: Bearer x"),
            (f"X-Api-Keys: {TOKEN}",),
        ],
    )
    def test_any_other_api_key(self, token_server: RunningServer, keys: tuple[str, ...]) -> None:
        assert get(token_server, "Host: x", ELSEWHERE, *keys, path="/state").status == 401

    @WAYS
    @pytest.mark.parametrize(
        "authorization",
        [
            (),
            ("",),
            ("Bearer",),
            ("Bearer ",),
            ("Bearer x",),
            (f"Bearer {TOKEN}x",),
            (f"Bearer {TOKEN[:-1]}",),
            (f"Bearer {TOKEN.upper()}",),
            (f"Bearer {TOKEN} {TOKEN}",),
            ("Bearer t\xf6ken",),
            (f"Basic {TOKEN}",),
            (TOKEN,),
            (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
            ("Bearer x", f"Bearer {TOKEN}"),
        ],
    )
    def test_any_other(self, token_server: RunningServer, way: Any, authorization: tuple[str, ...]) -> None:
        headers = [f"Authorization: {value}" for value in authorization]
        answer = way(token_server, f"Host: localhost:{token_server.port}", ELSEWHERE, *headers)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "Expected this server's token" in answer.detail
        assert TOKEN not in answer.text

    @WAYS
    def test_this_machine_needs_none_but_may_not_have_a_wrong_one(self, token_server: RunningServer, way: Any) -> None:
        here = f"Host: localhost:{token_server.port}"
        assert succeeded(way(token_server, here))
        assert succeeded(way(token_server, here, f"Authorization: Bearer {TOKEN}"))
        assert way(token_server, here, "Authorization: Bearer x").status == 401

    @WAYS
    def test_this_machine_may_send_anything_where_there_is_none(self, server: RunningServer, way: Any) -> None:
        assert succeeded(way(server, f"Host: localhost:{server.port}", "Authorization: Bearer x"))

    @WAYS
    def test_the_right_one_does_not_make_a_page_of_another_site_ours(
        self, token_server: RunningServer, way: Any
    ) -> None:
        headers = ("Host: localhost", "Origin: http://evil.com", f"Authorization: Bearer {TOKEN}")
        assert way(token_server, *headers).status == 403

    @WAYS
    def test_a_server_without_one_says_how_to_get_one(self, server: RunningServer, way: Any) -> None:
        answer = way(server, f"Host: localhost:{server.port}", ELSEWHERE, "Authorization: Bearer x")
        assert answer.status == 401
        assert "it has no token" in answer.detail
        assert "OPENENV_TOKEN=$(openssl rand -hex 24)" in answer.detail
        assert "OPENENV_AUTH=none" in answer.detail

    @pytest.mark.parametrize("path", ["/health", "/ready"])
    def test_whether_it_is_up_anybody_may_ask(self, server: RunningServer, path: str) -> None:
        for headers in (("Host: evil.com",), ("Host: evil.com", "Origin: http://evil.com", ELSEWHERE)):
            answer = get(server, *headers, path=path)
            assert (answer.status, list(json.loads(answer.text))) == (200, ["status"])
        assert post(server, "Host: localhost", ELSEWHERE, path=path).status == 401
        assert get(server, "Host: localhost", ELSEWHERE, path=f"{path}/").status == 401
        assert get(server, "Host: localhost", ELSEWHERE, path=f"{path}/../schema").status == 401

    @pytest.mark.parametrize(
        "path",
        ["/", "/metadata", "/state", "/docs/x", "/docs/", "/openapi.json", "/nothing", "//health", "/x/health"],
    )
    def test_nothing_else(self, server: RunningServer, path: str) -> None:
        assert get(server, "Host: localhost", ELSEWHERE, path=path).status == 401

    def test_from_the_environment(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_TOKEN", TOKEN)
        server, other = serve(), serve(token="another-token")
        for sent, expected in ((TOKEN, 200), ("another-token", 401)):
            assert get(server, "Host: x", ELSEWHERE, f"Authorization: Bearer {sent}").status == expected
        assert get(other, "Host: x", ELSEWHERE, "Authorization: Bearer another-token").status == 200

    @pytest.mark.parametrize("token", ["two words", "t\xf6ken", "line\nbreak", "", " "])
    def test_settings_that_no_header_could_carry(self, token: str) -> None:
        with pytest.raises(ConfigurationError, match="Expected the token") as caught:
            create_fastapi_app(CounterEnvironment, Add, Total, token=token)
        assert not token.strip() or token not in str(caught.value)

    def test_it_is_in_no_repr(self) -> None:
        assert TOKEN not in repr(AccessPolicy.of(ServerConfig(token=TOKEN)))


class TestNoToken:
    """``OPENENV_AUTH=none``."""

    @WAYS
    def test_anybody_may_come(self, serve: Serve, caplog: pytest.LogCaptureFixture, way: Any) -> None:
        server = serve(auth="none", token=TOKEN)
        assert "everybody who can reach this server can use it" in caplog.text
        assert succeeded(way(server, "Host: env.example.com", ELSEWHERE))
        assert succeeded(way(server, "Host: env.example.com", ELSEWHERE, "Authorization: Bearer x"))

    @WAYS
    def test_but_no_page_of_another_site(self, serve: Serve, way: Any) -> None:
        server = serve(auth="none")
        proxied = ("Host: env.example.com", ELSEWHERE)
        assert succeeded(way(server, *proxied, "Origin: https://env.example.com"))  # a proxy ended TLS
        assert way(server, *proxied, "Origin: http://evil.com").status == 403
        assert way(server, "Host: evil.com").status == 403  # from this machine

    @WAYS
    def test_nor_a_page_whose_name_was_pointed_at_the_server(self, serve: Serve, way: Any) -> None:
        server = serve(auth="none")
        page = ("Host: evil.com:8000", ELSEWHERE, "Origin: http://evil.com:8000")
        answer = way(server, *page)
        assert answer.status == 403
        assert "allowed_hosts=[...]" in answer.detail
        for host in ("192.0.2.7:8000", "[2001:db8::7]:8000"):  # an address can't be pointed elsewhere
            assert succeeded(way(server, f"Host: {host}", ELSEWHERE, f"Origin: http://{host}")), host

    @WAYS
    def test_nor_a_host_that_is_not_allowed_where_some_are(self, serve: Serve, way: Any) -> None:
        server = serve(auth="none", allowed_hosts=["env.example.com"], allowed_origins=["http://lab.example.com"])
        for host in ("env.example.com", "env.example.com:8000", "192.0.2.7", "localhost"):
            assert succeeded(way(server, f"Host: {host}", ELSEWHERE)), host
            assert succeeded(way(server, f"Host: {host}", ELSEWHERE, f"Origin: http://{host}")), host
        assert succeeded(way(server, "Host: env.example.com", ELSEWHERE, "Origin: http://lab.example.com"))
        for origin in ((), ("Origin: https://evil.com",), ("Origin: http://lab.example.com",)):
            assert way(server, "Host: evil.com", ELSEWHERE, *origin).status == 403, origin

    def test_pages_of_an_allowed_origin_use_any_name_of_the_server(self, serve: Serve) -> None:
        server = serve(auth="none", allowed_origins=["http://lab.example.com"])
        assert post(server, "Host: gpu-box:8000", ELSEWHERE, "Origin: http://lab.example.com").status == 200

    def test_from_the_environment(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_AUTH", "none")
        assert get(serve(), "Host: x", ELSEWHERE).status == 200
        assert get(serve(auth="token"), "Host: x", ELSEWHERE).status == 401

    def test_a_word_that_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_AUTH", "off")
        with pytest.raises(
            ConfigurationError, match=r"Expected auth \(OPENENV_AUTH\) to be 'token', 'always' or 'none', got 'off'"
        ):
            create_fastapi_app(CounterEnvironment, Add, Total)


class TestAlways:
    """``OPENENV_AUTH=always``: this machine is none to be trusted, as a tunnel's end runs on it."""

    @pytest.fixture
    def guarded(self, serve: Serve) -> RunningServer:
        return serve(auth="always", token=TOKEN)

    @WAYS
    @pytest.mark.parametrize("host", ["localhost:{port}", "env.example.com"])
    def test_this_machine_needs_the_token_and_nothing_else(self, guarded: RunningServer, way: Any, host: str) -> None:
        named = f"Host: {host.format(port=guarded.port)}"
        for others in ((), ("Authorization: Bearer x",), ("X-API-Key: x",)):
            answer = way(guarded, named, *others)
            assert answer.status == 401
            assert "Expected this server's token" in answer.detail
        for token in (f"Authorization: Bearer {TOKEN}", f"X-API-Key: {TOKEN}"):
            assert succeeded(way(guarded, named, token))
            assert succeeded(way(guarded, named, token, ELSEWHERE))
        assert way(guarded, named, ELSEWHERE).status == 401

    def test_what_is_open_elsewhere_is_open_here(self, guarded: RunningServer) -> None:
        for path, status in (
            ("/health", 200),
            ("/ready", 200),
            ("/docs", 200),
            ("/schema", 401),
            ("/openapi.json", 401),
        ):
            assert get(guarded, f"Host: localhost:{guarded.port}", path=path).status == status, path

    @WAYS
    def test_a_page_of_another_site_has_no_token(self, guarded: RunningServer, way: Any) -> None:
        assert way(guarded, f"Host: localhost:{guarded.port}", "Origin: http://evil.com").status == 401

    def test_a_unix_socket_needs_it_too(self) -> None:
        policy = AccessPolicy.of(ServerConfig(auth="always", token=TOKEN))
        scope: Scope = {"type": "http", "method": "GET", "path": "/schema", "client": None, "server": ["/run/s", None]}
        headers = [(b"host", b"localhost")]
        assert getattr(policy.denial({**scope, "headers": headers}), "status", None) == 401
        key = (b"authorization", f"Bearer {TOKEN}".encode())
        assert policy.denial({**scope, "headers": [*headers, key]}) is None

    def test_without_a_token_nobody_is_answered(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_AUTH", "always")
        server = serve()
        answer = get(server, f"Host: localhost:{server.port}")
        assert answer.status == 401
        assert "answers no requests, because it has no token" in answer.detail


class TestProxy:
    """What a proxy says never makes a peer a local one, and always makes it one from elsewhere."""

    @WAYS
    @pytest.mark.parametrize(
        "header",
        [
            "X-Forwarded-For: 203.0.113.9",
            "X-Forwarded-For: 127.0.0.1",
            "X-Forwarded-For: ::1",
            "X-Forwarded-For: testclient",
            "X-Forwarded-For: 203.0.113.9, 127.0.0.1",
            "X-Forwarded-For: 127.0.0.1, 203.0.113.9",
            "X-Forwarded-For: ",
            "x-forwarded-for: localhost",
            "X-Forwarded-Host: localhost",
            "X-Real-IP: 127.0.0.1",
            "Forwarded: for=127.0.0.1;host=localhost",
            "Via: 1.1 proxy",
        ],
    )
    def test_it_is_never_local(self, proxied_server: RunningServer, way: Any, header: str) -> None:
        assert way(proxied_server, f"Host: localhost:{proxied_server.port}", header).status == 401

    def test_the_scheme_that_a_proxy_names_is_that_of_the_origin(self, serve: Serve) -> None:
        server = serve()
        here = f"localhost:{server.port}"
        headers = (f"Host: {here}", f"Origin: https://{here}")
        assert post(server, *headers, "X-Forwarded-Proto: https").status == 200
        assert post(server, *headers).status == 403


async def passed(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "passed"})


async def guarded(access: AccessPolicy, **scope: Any) -> Message:
    """Have a guard pass a call on or refuse it; returns the first event that comes back."""
    events: list[Message] = []

    async def receive() -> Message:
        return {"type": f"{scope['type']}.connect"}

    async def send(event: Message) -> None:
        events.append(event)

    whole = {"type": "http", "method": "GET", "path": "/schema", "scheme": "http", "headers": [], **scope}
    await AccessMiddleware(passed, access)(whole, receive, send)
    return events[0]


class TestPeers:
    """What no server of this machine's can be made to say."""

    HOST = (b"host", b"localhost")

    @pytest.mark.parametrize(
        ("client", "server", "status"),
        [
            (("127.0.0.1", 1), ("127.0.0.1", 80), None),
            (("::1", 1), ("::1", 80), None),
            (("::ffff:127.0.0.1", 1), ("::ffff:127.0.0.1", 80), None),
            (("testclient", 1), ("testserver", 80), None),
            (None, ("/run/openenv.sock", None), None),  # a Unix socket
            (None, ("127.0.0.1", 80), 401),  # reset before it was accepted: nobody knows who it was
            (None, None, 401),
            (("10.0.0.7", 1), ("10.0.0.7", 80), 401),
            (("fe80::1%eth0", 1), ("fe80::2%eth0", 80), 401),
            (
                ("", 0),
                ("127.0.0.1", 80),
                401,
            ),  # as other ASGI servers name who comes over a Unix socket, or who is gone
            (("unix:", 0), ("/run/openenv.sock", None), 401),
            (("build-7.example.com", 1), ("127.0.0.1", 80), 401),
            (("TESTCLIENT", 1), ("127.0.0.1", 80), 401),
            (("::ffff:10.0.0.7", 1), ("::ffff:10.0.0.1", 80), 401),
        ],
    )
    async def test_where_they_are(self, client: Any, server: Any, status: int | None) -> None:
        event = await guarded(AccessPolicy(), client=client, server=server, headers=[self.HOST])
        assert event.get("status") == status

    @pytest.mark.parametrize("hosts", [[], ["localhost", "evil.com"], ["localhost", "localhost"]])
    async def test_other_parsers_let_any_number_of_hosts_pass(self, hosts: list[str]) -> None:
        headers = [(b"host", host.encode()) for host in hosts]
        event = await guarded(AccessPolicy(), client=("127.0.0.1", 1), server=("127.0.0.1", 80), headers=headers)
        assert event["status"] == 403

    async def test_the_address_that_is_listened_on_names_this_machine(self) -> None:
        for host, status in ((b"192.0.2.1:80", None), (b"192.0.2.2:80", 403)):
            event = await guarded(
                AccessPolicy(), client=("127.0.0.1", 1), server=("192.0.2.1", 80), headers=[(b"host", host)]
            )
            assert event.get("status") == status

    async def test_an_asgi_server_that_can_only_close_a_handshake(self) -> None:
        event = await guarded(AccessPolicy(), type="websocket", client=("10.0.0.7", 1), server=("10.0.0.1", 80))
        assert event == {"type": "websocket.close"}

    def test_a_test_client_in_the_process_is_let_through(self) -> None:
        app = create_fastapi_app(CounterEnvironment, Add, Total)
        with TestClient(app) as client:
            assert client.post("/reset").status_code == 200
            with client.websocket_connect("/ws") as socket:
                socket.send_json({"type": "reset"})
                assert socket.receive_json()["type"] == "observation"

    def test_an_application_behind_a_prefix(self) -> None:
        app = create_fastapi_app(CounterEnvironment, Add, Total)
        with RunningServer(app, root_path="/env") as server:
            assert get(server, "Host: x", ELSEWHERE, path="/health").status == 200
            assert get(server, "Host: x", ELSEWHERE, path="/schema").status == 401

    @given(headers=st.lists(st.tuples(st.sampled_from([b"host", b"origin", b"authorization", b"x"]), st.binary())))
    async def test_whatever_comes_nobody_from_elsewhere_passes(self, headers: list[tuple[bytes, bytes]]) -> None:
        access = AccessPolicy(token=new_token())
        event = await guarded(access, client=("192.0.2.9", 1), server=("192.0.2.1", 80), headers=headers)
        assert event["status"] == 401

    @given(host=st.text(st.characters(codec="latin-1")))
    async def test_whatever_host_comes_it_passes_only_if_it_ends_as_ours_do(self, host: str) -> None:
        headers = [(b"host", host.encode("latin-1"))]
        event = await guarded(AccessPolicy(), client=("127.0.0.1", 1), server=("127.0.0.1", 80), headers=headers)
        assert event.get("status") == 403


def test_a_connection_that_is_reset_before_it_is_accepted_drives_nothing(gate: Gate) -> None:
    # Its peer can't be told any more, although what it has sent can still be read.
    app = create_fastapi_app(lambda: GatedEnvironment(gate), Add, Total, max_concurrent_envs=1)
    server = RunningServer(app)
    gate.calls.clear()
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    raw.sendall(b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    with server:
        assert get(server, "Host: localhost").status == 200  # it has been accepted after the other one
        eventually(lambda: server.connections == 0, "both are gone")
    assert gate.calls == []


def test_nothing_happens_where_a_request_is_refused(serve: Serve, gate: Gate) -> None:
    server = serve(lambda: GatedEnvironment(gate), max_concurrent_envs=1)
    gate.calls.clear()
    for header in ("Host: evil.com", "Origin: null", ELSEWHERE):
        for way in (post, shake_hands):
            headers = [header] if header.startswith("Host") else ["Host: localhost", header]
            assert way(server, *headers).status in (401, 403)
    assert gate.calls == []


@pytest.fixture(scope="module")
def production() -> Iterator[RunningServer]:
    """One server in production mode."""
    app = create_fastapi_app(CounterEnvironment, Add, Total, mode="production", max_concurrent_envs=8)
    with RunningServer(app) as server:
        yield server


class TestProduction:
    """Trainers' messages are refused on both wires; an agent's go through."""

    def test_the_legacy_wire(self, production: RunningServer) -> None:
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
        with production.wire() as wire:
            for kind in ("reset", "step", "state"):
                error = wire.ask({"type": kind, "data": {"amount": 1}} if kind != "state" else {"type": kind})["data"]
                assert (error["code"], error["mode"]) == ("SESSION_ERROR", "production")
                assert f"Expected an MCP message, got {kind}" in error["message"]
                assert "OPENENV_MODE=simulation" in error["message"]
            answer = wire.ask({"type": "mcp", "data": call})
            assert (answer["type"], answer["data"]["id"]) == ("mcp", 7)
        production.wait_for_sessions(0)

    def test_v1(self, production: RunningServer) -> None:
        with production.v1() as wire:
            session = wire.open()
            refused: list[dict[str, Any]] = [
                {"type": "reset", "data": {}},
                {"type": "step", "data": {"amount": 1}},
                {"type": "state"},
                {"type": "fork", "data": {"count": 2}},
            ]
            for name in (session, "s"):
                for number, message in enumerate(refused, 1):
                    answer = wire.ask({**message, "id": number, "session": name})
                    assert (answer["type"], answer["id"]) == ("error", number)
                    assert (answer["data"]["code"], answer["data"]["mode"]) == ("SESSION_ERROR", "production")
                    assert f"got {message['type']}" in answer["data"]["message"]
            params = {"name": "add", "arguments": {"amount": 4}}
            call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
            answer = wire.ask({"type": "mcp", "id": 5, "session": session, "data": call})
            assert answer["data"]["result"]["data"] == {"total": 4, "done": False}
            assert production.sessions.active_sessions == 1
        production.wait_for_sessions(0)


class TestLogs:
    def test_the_headers_of_a_handshake_are_logged_without_the_token(
        self, token_server: RunningServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        uvicorn_log = logging.getLogger("uvicorn.error")
        # Not by way of the root logger: a program that has been served in this process before may have cut that way.
        uvicorn_log.addHandler(caplog.handler)
        try:
            with caplog.at_level(logging.DEBUG, uvicorn_log.name):
                wire = Wire(f"ws://127.0.0.1:{token_server.port}/ws", {"Authorization": f"Bearer {TOKEN}"})
                wire.close()
                eventually(lambda: token_server.connections == 0, "the socket is gone")
        finally:
            uvicorn_log.removeHandler(caplog.handler)
        logged = [record.getMessage() for record in caplog.records if record.name == "uvicorn.error"]
        assert "< authorization: [redacted]" in [line.lower() for line in logged]
        assert not [line for line in logged if TOKEN in line]

    def test_a_refusal_is_logged_for_those_who_look(
        self, server: RunningServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "openenv"):
            get(server, "Host: evil.com")
            eventually(lambda: "refused a request from" in caplog.text, "the record")


@pytest.mark.parametrize(
    ("host", "settings", "needed"),
    [
        ("127.0.0.1", {}, False),
        ("::1", {}, False),
        ("localhost", {}, False),
        ("0.0.0.0", {}, True),
        ("::", {}, True),
        ("192.0.2.1", {}, True),
        ("0.0.0.0", {"token": "t"}, False),
        ("0.0.0.0", {"auth": "none"}, False),
        ("127.0.0.1", {"auth": "always"}, True),
        ("127.0.0.1", {"auth": "always", "token": "t"}, False),
    ],
)
def test_when_a_token_is_made(
    host: str, settings: ServerSettings, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert needs_new_token(host, ServerConfig.read(settings)) is needed
    monkeypatch.setenv("OPENENV_TOKEN", TOKEN)
    assert not needs_new_token(host, ServerConfig.read(settings))


def test_a_new_token_is_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
    assert all(AccessPolicy.of(ServerConfig(token=token)).token == token for token in tokens)
