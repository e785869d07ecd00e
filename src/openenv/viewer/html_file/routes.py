"""Route that answers with an HTML file of what the page shows."""

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from openenv.core.exceptions import ConfigurationError
from openenv.viewer.answers import HEADERS, invalid_query, not_found
from openenv.viewer.html_file.document import html_file


class _FileQuery(BaseModel):
    """Query of a file: the page's view and query."""

    model_config = ConfigDict(extra="forbid")

    page: str


def html_file_routes(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the route of the file."""
    return [Route("/web/html", partial(_answered, [*routes]), include_in_schema=False)]


async def _answered(routes: Sequence[BaseRoute], request: Request) -> Response:
    try:
        query = _FileQuery.model_validate(dict(request.query_params))
        content = await html_file(routes, query.page)
    except ValidationError as error:
        return invalid_query(error)
    except ConfigurationError as error:
        return not_found(error)
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="openenv.html"'}
    return Response(content, headers=headers, media_type="text/html")
