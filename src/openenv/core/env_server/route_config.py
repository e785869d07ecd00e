"""GET routes of an application, each described by one object."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI


@dataclass
class GetEndpointConfig:
    """Route that answers GET with what a function returns.

    Attributes:
        path: Path of the route.
        handler: Function without arguments, whose result is the answer; FastAPI calls it in a thread.
        response_model: Class of the answer.
        tag: Heading of the route in the API's description.
        summary: Title of the route there.
        description: Text of the route there.
    """

    path: str
    handler: Callable[[], Any]
    response_model: Any
    tag: str
    summary: str
    description: str


def register_get_endpoints(app: FastAPI, configs: Iterable[GetEndpointConfig]) -> None:
    """Add routes to an application.

    Args:
        app: The application.
        configs: The routes.

    Example:
        >>> app = FastAPI()
        >>> register_get_endpoints(app, [GetEndpointConfig("/answer", lambda: {}, dict, "Own", "Answer", "The answer")])
        >>> app.url_path_for("/answer")
        '/answer'
    """
    for config in configs:
        app.add_api_route(
            config.path,
            config.handler,
            methods=["GET"],
            response_model=config.response_model,
            tags=[config.tag],
            summary=config.summary,
            description=config.description,
            name=config.path,
        )
