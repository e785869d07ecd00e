"""Routes whose errors are described: their document is that of FastAPI's own routes."""

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from openenv.core.env_server.http.errors import DescribedRoute, refusals


class Answer(BaseModel):
    """What a route answers."""

    text: str


async def answer() -> Answer:
    return Answer(text="here")


def document(route: type[APIRoute]) -> dict[str, Any]:
    router = APIRouter(route_class=route, responses=refusals(401, 403))
    more: dict[int | str, dict[str, Any]] = {
        200: {"model": Answer, "description": "All is well."},
        418: {"description": "Tea."},
    }
    router.add_api_route("/plain", answer, response_model=Answer)
    router.add_api_route("/described", answer, response_model=Answer, responses={**refusals(404, 500), **more})
    app = FastAPI()
    app.include_router(router, responses=refusals(503))
    return app.openapi()


def test_described_routes_are_documented_as_plain_ones() -> None:
    described = document(DescribedRoute)
    assert described == document(APIRoute)
    assert described["paths"]["/described"]["get"]["responses"].keys() >= {
        "200",
        "401",
        "403",
        "404",
        "418",
        "500",
        "503",
    }
