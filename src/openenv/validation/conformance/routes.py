"""Checks of a server's routes: those of the public package, tools over MCP, tasks, and sessions of ORS."""

from collections.abc import Iterator
from typing import Any

from openenv.core.documents import DocumentError, parse_json
from openenv.validation.conformance.forms import is_result, message
from openenv.validation.conformance.server import AnswerForm, NotOfferedError, RouteReply, Server, expect, unexpected
from openenv.validation.findings import Check, Finding
from openenv.validation.url_checks import validate_url

_OK, _BAD_REQUEST, _NOT_FOUND, _NOT_ALLOWED, _NOT_IMPLEMENTED = 200, 400, 404, 405, 501
_UNKNOWN_METHOD = -32601
_LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_UNKNOWN = {"jsonrpc": "2.0", "id": 2, "method": "no/such/method", "params": {}}
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "openenv-conformance", "version": "1"},
    },
}
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_TOOLS = AnswerForm(
    'a JSON-RPC result with a list "tools", each with a name and a schema of its input',
    lambda answer: _has_tools(answer),  # noqa: PLW0108  # it is defined below
)
_NO_METHOD = AnswerForm(
    f"a JSON-RPC error with the code {_UNKNOWN_METHOD}",
    lambda answer: isinstance(answer, dict) and (answer.get("error") or {}).get("code") == _UNKNOWN_METHOD,
)


def _find_in_routes(server: Server) -> Iterator[Finding]:
    for criterion in validate_url(server.url, server.timeout_s, server.token).criteria:
        if not criterion.passed:
            yield unexpected(
                f"{criterion.description}: {dict(criterion.expected)}", criterion.id, dict(criterion.actual)
            )


def _find_in_reset(server: Server) -> Iterator[Finding]:
    reply = _offered(server.request("POST", "/reset", {}), "POST /reset")
    form = AnswerForm(
        "status 200, observation, reward and done", lambda each: each.status == _OK and is_result(each.document)
    )
    if not form.fits(reply):
        yield unexpected(form.text, "POST /reset {}", f"{reply.status} {reply.text}")


def _find_in_tools(server: Server) -> Iterator[Finding]:
    with server.legacy() as socket:
        for request, form in ((_LIST, _TOOLS), (_UNKNOWN, _NO_METHOD)):
            answer = message(socket.exchange({"type": "mcp", "data": request}), "mcp")
            _check_offered(request, answer)
            yield from expect(form, request, answer)


def _find_in_tools_over_http(server: Server) -> Iterator[Finding]:
    for request, form in ((_LIST, _TOOLS), (_UNKNOWN, _NO_METHOD)):
        reply = _offered(server.request("POST", "/mcp", request), "POST /mcp")
        _check_offered(request, reply.document)
        yield from expect(form, request, reply.document)


def _find_in_handshake(server: Server) -> Iterator[Finding]:
    reply = _offered(server.request("POST", "/mcp", _INITIALIZE, _ACCEPT), "POST /mcp")
    answer = reply.document if reply.document is not None else _event(reply.text)
    result = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(result, dict):
        raise NotOfferedError(f"POST /mcp answers initialize with status {reply.status}")
    missing = [name for name in ("protocolVersion", "capabilities", "serverInfo") if name not in result]
    if missing:
        yield unexpected(f"a result with {', '.join(missing)}", _INITIALIZE, answer)


def _find_in_tasks(server: Server) -> Iterator[Finding]:
    name = _environment(server)
    reply = server.request("GET", f"/{name}/splits")
    if reply.status == _NOT_IMPLEMENTED:
        raise NotOfferedError("the environment does not list its splits")
    if reply.status != _OK or not isinstance(reply.document, list):
        yield unexpected("status 200 and a list of splits", f"GET /{name}/splits", f"{reply.status} {reply.text}")
        return
    for split in reply.document[:1]:
        yield from _tasks_of(server, name, split.get("name") if isinstance(split, dict) else split)
    reply = server.request("GET", "/no_such_environment/splits")
    if reply.status != _NOT_FOUND:
        yield unexpected(
            "status 404 for an environment of another name", "GET /no_such_environment/splits", reply.status
        )


def _tasks_of(server: Server, name: str, split: Any) -> Iterator[Finding]:
    """Find what differs for one split; 501 where the environment does not offer this of its tasks."""
    cases: list[tuple[str, dict[str, Any], AnswerForm]] = [
        ("num_tasks", {}, AnswerForm('"num_tasks", an integer', lambda found: type(found.get("num_tasks")) is int)),
        ("task", {"index": 0}, AnswerForm('"task"', lambda found: "task" in found)),
        (
            "task_range",
            {"start": 0, "stop": 2},
            AnswerForm('"tasks", a list of at most 2', lambda found: len(found.get("tasks", "too long")) <= 2),
        ),
    ]
    for route, more, form in cases:
        path, body = f"/{name}/{route}", {"split": split, **more}
        reply = server.request("POST", path, body)
        if reply.status == _NOT_IMPLEMENTED:
            continue
        if reply.status != _OK or not isinstance(reply.document, dict) or not form.fits(reply.document):
            yield unexpected(f"status 200 and {form.text}", f"POST {path} {body}", f"{reply.status} {reply.text}")
    reply = server.request("POST", f"/{name}/task", {"split": split, "index": 10**12})
    if reply.status not in (_BAD_REQUEST, _NOT_IMPLEMENTED):
        yield unexpected("status 400 for a task that there is not", f"POST /{name}/task index 10^12", reply.status)


def _find_in_ors(server: Server) -> Iterator[Finding]:
    created = _offered(server.request("POST", "/create_session"), "POST /create_session")
    session = _event_data(created.text)
    if created.status != _OK or not session:
        yield unexpected("an event with the session's id", "POST /create_session", f"{created.status} {created.text}")
        return
    headers = {"X-Session-ID": session}
    name = _environment(server)
    splits = server.request("GET", f"/{name}/splits", headers=headers).document
    first = splits[0] if isinstance(splits, list) and splits else {}
    body = {"env_name": name, "split": first.get("name", "train"), "index": 0}
    sid = AnswerForm(
        f'status 200 and "sid": {session!r}', lambda each: each.status == _OK and each.document == {"sid": session}
    )
    blocks = AnswerForm(
        "status 200 and a list of blocks", lambda each: each.status == _OK and isinstance(each.document, list)
    )
    accepted = AnswerForm("status 200", lambda each: each.status == _OK)
    for method, path, content, form in (
        ("POST", "/create", body, sid),
        ("GET", f"/{name}/prompt", None, blocks),
        ("POST", "/ping", None, accepted),
        ("POST", "/delete", None, accepted),
    ):
        reply = server.request(method, path, content, headers)
        if not form.fits(reply):
            yield unexpected(form.text, f"{method} {path} {content or ''}", f"{reply.status} {reply.text}")


def _environment(server: Server) -> str:
    names = _offered(server.request("GET", "/list_environments"), "GET /list_environments").document
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise NotOfferedError(f"GET /list_environments names no environment: {names}")
    return names[0]


def _offered(reply: RouteReply, route: str) -> RouteReply:
    """Return a reply, unless there is no such route."""
    if reply.status in (_NOT_FOUND, _NOT_ALLOWED, _NOT_IMPLEMENTED):
        raise NotOfferedError(f"{route} answers with status {reply.status}")
    return reply


def _check_offered(request: Any, answer: Any) -> None:
    """Raise where the environment has no tools, by the server's own words."""
    error = answer.get("error") if isinstance(answer, dict) and request is _LIST else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise NotOfferedError(f"tools/list is answered with: {error['message']}")


def _has_tools(answer: Any) -> bool:
    result = answer.get("result") if isinstance(answer, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    return isinstance(tools, list) and all(
        isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(_input_schema(each), dict)
        for each in tools
    )


def _input_schema(tool: dict[str, Any]) -> Any:
    """Return the schema of a tool's input; the public package's dialect spells its name otherwise."""
    return tool.get("inputSchema", tool.get("input_schema"))


def _event(text: str) -> Any:
    """Return the JSON of the first server-sent event, if it has some."""
    try:
        return parse_json(_event_data(text))
    except DocumentError:
        return None


def _event_data(text: str) -> str:
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("data:")]
    return next(filter(None, lines), "")


HTTP_CHECKS = (
    Check("http.routes", "health, metadata, schema, OpenAPI and MCP are served", _find_in_routes),
    Check("http.reset", "POST /reset answers with observation, reward and done", _find_in_reset),
)
MCP_CHECKS = (
    Check("mcp.socket", "messages of the type mcp carry JSON-RPC, which lists tools", _find_in_tools),
    Check("mcp.http", "POST /mcp takes the same JSON-RPC", _find_in_tools_over_http),
    Check("mcp.handshake", "POST /mcp speaks the Model Context Protocol", _find_in_handshake),
)
TASK_CHECKS = (Check("tasks.routes", "splits, numbers, ranges and single tasks are served", _find_in_tasks),)
ORS_CHECKS = (Check("ors.session", "a session of ORS is created, prompted, kept and deleted", _find_in_ors),)
