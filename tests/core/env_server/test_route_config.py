"""GET routes that are described by objects."""

from fastapi import FastAPI
from fastapi.testclient import TestClient

from openenv.core.env_server.route_config import GetEndpointConfig, register_get_endpoints


def test_each_route_answers_with_what_its_handler_returns_and_is_described() -> None:
    app = FastAPI()
    routes = [
        GetEndpointConfig("/one", lambda: {"n": 1}, dict[str, int], "Numbers", "One", "The number one"),
        GetEndpointConfig("/two", lambda: {"n": 2}, dict[str, int], "Numbers", "Two", "The number two"),
    ]
    register_get_endpoints(app, routes)

    with TestClient(app) as client:
        assert [client.get(path).json() for path in ("/one", "/two")] == [{"n": 1}, {"n": 2}]
        described = client.get("/openapi.json").json()["paths"]["/two"]["get"]
    assert (described["tags"], described["summary"], described["description"]) == (["Numbers"], "Two", "The number two")
