"""Checks of a running server by its HTTP routes, as the public ``openenv validate --url`` makes and reports them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

from openenv.auto.target import Target, TargetKind
from openenv.core.addresses import url_with_path
from openenv.core.client.client import authorized_headers
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.providers.health import opener_for

STANDARD_VERSION = "1.0.0"
STANDARD_PROFILE = "openenv-http/1.x"
TIMEOUT_S = 5.0
_CONTROL = ("/reset", "/step", "/state")
_OK = 200


@dataclass(frozen=True)
class CriterionResult:
    """Result of a criterion.

    Attributes:
        id: The criterion's name.
        description: Its subject.
        passed: Whether the server meets it.
        required: Whether the server fails without it; all are required.
        expected: Expected value.
        actual: Value of the server.
    """

    id: str
    description: str
    passed: bool
    required: bool
    expected: Mapping[str, Any]
    actual: Mapping[str, Any]


@dataclass(frozen=True)
class UrlReport:
    """Results of all criteria for a running server.

    Attributes:
        target: The server's address.
        mode: ``simulation`` or ``production``, by the routes in its OpenAPI document; ``unknown`` for neither, or
            without that document.
        criteria: One entry for each criterion.
    """

    target: str
    mode: str
    criteria: list[CriterionResult]

    @property
    def passed(self) -> bool:
        """True if the server meets every criterion."""
        return all(each.passed for each in self.criteria)

    @property
    def answered(self) -> bool:
        """Return whether the server has answered any request."""
        return any(each.actual.get("status_code") is not None for each in self.criteria)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        failed = [each.id for each in self.criteria if not each.passed]
        met, total = len(self.criteria) - len(failed), len(self.criteria)
        return {
            "target": self.target,
            "validation_type": "running_environment",
            "standard_version": STANDARD_VERSION,
            "standard_profile": STANDARD_PROFILE,
            "mode": self.mode,
            "passed": self.passed,
            "summary": {
                "passed_count": met,
                "total_count": total,
                "failed_criteria": failed,
                "required_passed_count": met,
                "required_total_count": total,
            },
            "criteria": [asdict(each) for each in self.criteria],
        }


def validate_url(url: str, timeout_s: float = TIMEOUT_S, token: str | None = None) -> UrlReport:
    """Check a running server. Nothing is reset or stepped.

    Args:
        url: The server's address, or that of its socket or page.
        timeout_s: Seconds that each answer may take.
        token: The token that is sent with requests; that of ``OPENENV_TOKEN`` if ``None``.

    Raises:
        EnvironmentNotFoundError: The address is none.
    """
    address = Target.of(url).required({TargetKind.ADDRESS}, "The check of a server").text
    server = ServerRoutes(address, timeout_s, token)
    openapi = server.get("/openapi.json")
    paths = openapi.mapping("paths")
    present = {path: path in paths for path in _CONTROL} if paths is not None else {}
    criteria = [
        _version(openapi),
        _health(server.get("/health")),
        _metadata(server.get("/metadata")),
        _schema(server.get("/schema")),
        _mcp(server.post("/mcp", {})),
        _mode(openapi, present),
    ]
    return UrlReport(server.url, _mode_of(present), criteria)


@dataclass(frozen=True)
class _Answer:
    """Status and document of an answer, or the reason why there is none."""

    status: int | None
    document: Any = None
    error: str = ""

    def mapping(self, key: str | None = None) -> dict[str, Any] | None:
        """Return the document, or what it has under a key, if that is an object."""
        found = self.document if key is None else (self.mapping() or {}).get(key)
        return found if isinstance(found, dict) else None

    def actual(self, **found: Any) -> dict[str, Any]:
        """Return the report of a criterion: status, findings, and the error if there was one."""
        return {"status_code": self.status, **found, **({"error": self.error} if self.error else {})}


class ServerRoutes:
    """The routes of a server."""

    def __init__(self, url: str, timeout_s: float, token: str | None = None) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._headers = authorized_headers(None, token)

    def get(self, path: str) -> _Answer:
        """Return the answer of a route to GET."""
        return self._answer(Request(url_with_path(self.url, path)))  # noqa: S310  # validate_url has checked it

    def post(self, path: str, body: Any) -> _Answer:
        """Return the answer of a route to POST."""
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        return self._answer(Request(url_with_path(self.url, path), data, kind))  # noqa: S310

    def _answer(self, request: Request) -> _Answer:
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)  # a secret, which is for this server alone
        try:
            with opener_for(self.url).open(request, timeout=self._timeout_s) as answer:
                return _Answer(answer.status, parse_json(answer.read(MAX_JSON_BYTES)))
        except HTTPError as error:
            with error:
                return _Answer(error.code)
        except (OSError, HTTPException, ValueError) as error:
            return _Answer(None, error=str(error) or type(error).__name__)


def _version(openapi: _Answer) -> CriterionResult:
    version = (openapi.mapping("info") or {}).get("version")
    return _criterion(
        "openapi_version_available",
        "GET /openapi.json returns the version of the API",
        openapi,
        {"info.version": "string"},
        {"info.version": version},
        isinstance(version, str),
    )


def _health(answer: _Answer) -> CriterionResult:
    status = (answer.mapping() or {}).get("status")
    found = {"status": status}
    description = "GET /health answers that the server is healthy"
    return _criterion("health_endpoint", description, answer, {"status": "healthy"}, found, status == "healthy")


def _metadata(answer: _Answer) -> CriterionResult:
    document, keys = answer.mapping() or {}, ("name", "description")
    found = {key: document.get(key) for key in keys}
    passes = all(isinstance(value, str) for value in found.values())
    expected = {"fields": list(keys)}
    return _criterion("metadata_endpoint", "GET /metadata has name and description", answer, expected, found, passes)


def _schema(answer: _Answer) -> CriterionResult:
    parts = ("action", "observation", "state")
    found = {f"has_{part}": answer.mapping(part) is not None for part in parts}
    description = "GET /schema has the schemas of action, observation and state"
    return _criterion("schema_endpoint", description, answer, {"fields": list(parts)}, found, all(found.values()))


def _mcp(answer: _Answer) -> CriterionResult:
    version = (answer.mapping() or {}).get("jsonrpc")
    description = "POST /mcp answers with JSON-RPC"
    return _criterion("mcp_endpoint", description, answer, {"jsonrpc": "2.0"}, {"jsonrpc": version}, version == "2.0")


def _mode(openapi: _Answer, present: Mapping[str, bool]) -> CriterionResult:
    return CriterionResult(
        id="mode_endpoint_consistency",
        description="the API has all or none of the routes that control episodes",
        passed=len(set(present.values())) == 1,
        required=True,
        expected=dict.fromkeys(_CONTROL, present.get("/reset", True)),
        actual=dict(present) or openapi.actual(paths=None),
    )


def _mode_of(present: Mapping[str, bool]) -> str:
    if not present or len(set(present.values())) > 1:
        return "unknown"
    return "simulation" if all(present.values()) else "production"


def _criterion(
    name: str,
    description: str,
    answer: _Answer,
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
    passes: bool,
) -> CriterionResult:
    passed = answer.status == _OK and passes
    return CriterionResult(name, description, passed, True, {"status_code": _OK, **expected}, answer.actual(**found))
