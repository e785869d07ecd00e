"""What an author adds to an application works as on a bare one, also where this package has something of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from fastapi.staticfiles import StaticFiles
from fastapi.testclient import TestClient
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.app import HTTPEnvServer, create_app, create_web_interface_app

MINE = PlainTextResponse("mine")
OURS = ("/metrics", "/sessions", "/ready", "/web", "/web/", "/web/config", "/web/live", "/counter/splits", "/mcp")
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
# A peer from elsewhere, which needs the token.
ELSEWHERE = {"X-Forwarded-For": "192.0.2.1"}


def made(**settings: Any) -> FastAPI:
    return create_app(CounterEnvironment, Add, Total, env_name="counter", **settings)


@pytest.fixture
def app() -> FastAPI:
    return made()


def mine() -> PlainTextResponse:
    return MINE


def add_route(app: FastAPI, path: str) -> None:
    app.get(path)(mine)


def add_router(app: FastAPI, path: str) -> None:
    router = APIRouter()
    router.get(path)(mine)
    app.include_router(router)


def add_mount(app: FastAPI, path: str) -> None:
    inner = FastAPI()
    inner.get("/")(mine)
    inner.get("")(mine) if not path.endswith("/") else None
    app.mount(path.rstrip("/"), inner)


class TestRoutes:
    @pytest.mark.parametrize("path", OURS)
    @pytest.mark.parametrize("add", [add_route, add_router], ids=["a route", "a router"])
    def test_an_author_s_own_answers(self, app: FastAPI, path: str, add: Callable[[FastAPI, str], None]) -> None:
        add(app, path)
        with TestClient(app) as client:
            assert client.get(path, follow_redirects=False).text == "mine"
            assert client.post("/reset").status_code == 200
            assert client.post("/mcp", json=LISTING).json()["result"]["tools"]

    def test_so_does_a_mount(self, app: FastAPI) -> None:
        add_mount(app, "/web/")
        with TestClient(app) as client:
            assert client.get("/web/").text == "mine"
            assert client.get("/web/static/app.js").status_code == 404

    @pytest.mark.parametrize("path", ["/metrics", "/sessions", "/web"])
    def test_so_does_a_mount_to_whose_slash_starlette_redirects(self, app: FastAPI, path: str) -> None:
        add_mount(app, f"{path}/")
        with TestClient(app) as client:
            assert client.get(path).text == "mine"
            assert client.get("/ready").json() == {"status": "ready"}

    @pytest.mark.parametrize("path", ["/tasks", "/task", "/num_tasks", "/splits"])
    def test_so_does_one_that_is_posted_to(self, app: FastAPI, path: str) -> None:
        app.post(f"/counter{path}")(mine)
        app.delete("/session")(mine)
        with TestClient(app) as client:
            assert client.post(f"/counter{path}", json={}).text == "mine"
            assert client.delete("/session").text == "mine"

    def test_so_does_one_that_is_added_while_the_application_runs(self, app: FastAPI) -> None:
        with TestClient(app) as client:
            assert client.get("/metrics").text != "mine"
            add_route(app, "/metrics")
            assert client.get("/metrics").text == "mine"

    def test_so_does_one_of_an_application_of_their_own(self) -> None:
        app = FastAPI()
        HTTPEnvServer(CounterEnvironment, Add, Total).register_routes(app)
        add_route(app, "/metrics")
        assert TestClient(app).get("/metrics").text == "mine"

    def test_what_programs_of_the_public_package_rely_on_stays(self, app: FastAPI) -> None:
        add_route(app, "/health")
        assert TestClient(app).get("/health").json() == {"status": "healthy"}

    @pytest.mark.parametrize("web", [False, True])
    def test_files_at_the_root_are_for_what_has_no_route(self, tmp_path: Path, web: bool) -> None:
        (tmp_path / "metrics").write_text("a file")
        (tmp_path / "index.txt").write_text("another one")
        app = (create_web_interface_app if web else create_app)(CounterEnvironment, Add, Total)
        app.mount("/", StaticFiles(directory=tmp_path))
        with TestClient(app) as client:
            assert client.get("/index.txt").text == "another one"
            assert "openenv_sessions" in client.get("/metrics").text
            assert [client.get(path).status_code for path in ("/ready", "/web/", "/web/config")] == [200] * 3

    def test_all_are_described(self, app: FastAPI) -> None:
        before = made().openapi()["paths"]
        app.get("/mine")(mine)
        assert TestClient(app).get("/openapi.json").json()["paths"].keys() == before.keys() | {"/mine"}

    def test_a_page_in_place_of_an_open_one_is_guarded(self) -> None:
        app = made(token="a-long-token")
        page = {**ELSEWHERE, "Accept": "text/html"}
        with TestClient(app) as client:
            assert client.get("/web/", headers=page).status_code == 200
            add_route(app, "/web/")
            assert client.get("/web/", headers=page).status_code == 401
            assert client.get("/web/live", headers=page).status_code == 200
            assert client.get("/web/", headers={**page, "Authorization": "Bearer a-long-token"}).text == "mine"


class TestLifespan:
    """The server starts before what the author starts, and both end."""

    def test_handlers_of_events(self, app: FastAPI) -> None:
        events: list[str] = []
        app.router.on_startup.append(lambda: events.append("up"))
        app.router.on_shutdown.append(lambda: events.append("down"))
        for _ in range(2):
            with TestClient(app) as client:
                assert client.post("/reset").status_code == 200
                assert events[-1] == "up"
        assert events == ["up", "down"] * 2

    @pytest.mark.parametrize("calls_ours", [False, True])
    def test_a_lifespan_of_their_own(self, tmp_path: Path, calls_ours: bool) -> None:
        app = made(traces=tmp_path / "traces.db")
        ours = app.router.lifespan_context
        events: list[str] = []

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
            events.append("up")
            if calls_ours:
                async with ours(app):
                    yield {"shared": 3}
            else:
                yield {"shared": 3}
            events.append("down")

        app.router.lifespan_context = lifespan
        app.get("/shared")(read_shared)
        for _ in range(2):
            with TestClient(app) as client:
                assert client.get("/shared").json() == 3
                client.post("/reset")
                client.post("/step", json={"action": {"amount": 1}})
                assert len(list(app.state.sessions)) == 1
            assert len(list(app.state.sessions)) == 0, "the server has closed"
        assert events == ["up", "down"] * 2
        assert (tmp_path / "traces.db").exists(), "it has started, too"


def read_shared(request: Request) -> Any:
    return request.state.shared


class TestOtherParts:
    def test_state(self, app: FastAPI) -> None:
        for name in ("server", "sessions", "operations", "access", "agents", "start_page"):
            setattr(app.state, name, "mine")
        with TestClient(app) as client:
            assert client.post("/reset").status_code == 200
            assert client.post("/step", json={}).status_code == 422
            assert client.get("/metrics").status_code == 200
            assert client.get("/", headers={"Accept": "text/html"}).status_code == 200
        assert app.state.sessions == "mine"

    def test_state_from_before(self) -> None:
        app = FastAPI()
        app.state.sessions = {"mine": 1}
        server = HTTPEnvServer(CounterEnvironment, Add, Total)
        server.register_routes(app)
        assert app.state.sessions == {"mine": 1}
        assert TestClient(app).post("/step", json={}).status_code == 422

    @pytest.mark.parametrize("before", [False, True])
    def test_handlers_of_exceptions(self, before: bool) -> None:
        app = FastAPI()
        server = HTTPEnvServer(CounterEnvironment, Add, Total)
        if not before:
            server.register_routes(app)
        app.exception_handler(RequestValidationError)(lambda request, error: PlainTextResponse("invalid", 400))
        app.exception_handler(KeyError)(lambda request, error: PlainTextResponse("missing", 410))
        app.exception_handler(404)(lambda request, error: PlainTextResponse("nowhere", 404))
        app.get("/missing")(raise_key_error)
        if before:
            server.register_routes(app)
        with TestClient(app) as client:
            assert client.post("/step", json={}).text == "invalid"
            assert client.get("/missing").text == "missing"
            assert client.get("/nowhere").text == "nowhere"

    def test_middleware(self, app: FastAPI) -> None:
        @app.middleware("http")
        async def mark(request: Request, call_next: Any) -> Any:
            response = await call_next(request)
            response.headers["X-Mine"] = "1"
            return response

        with TestClient(app) as client:
            answers = [client.get(path) for path in ("/health", "/metrics", "/web/", "/nowhere")]
            assert [answer.headers["X-Mine"] for answer in [*answers, client.post("/mcp", json=LISTING)]] == ["1"] * 5

    def test_dependencies(self) -> None:
        app = FastAPI(dependencies=[Depends(check_key)])
        HTTPEnvServer(CounterEnvironment, Add, Total).register_routes(app)
        with TestClient(app) as client:
            assert client.post("/reset").status_code == client.get("/metrics").status_code == 418
            assert client.post("/reset", headers={"X-Key": "mine"}).status_code == 200
            app.dependency_overrides[check_key] = lambda: None
            assert client.post("/reset").status_code == 200


def raise_key_error() -> None:
    raise KeyError("x")


def check_key(x_key: Annotated[str, Header()] = "") -> None:
    if x_key != "mine":
        raise HTTPException(418)
