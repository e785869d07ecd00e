"""All parts of the wires, and the check of a server against them."""

import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from openenv.auto.target import Target, TargetKind
from openenv.validation.conformance.legacy import LEGACY_CHECKS
from openenv.validation.conformance.routes import HTTP_CHECKS, MCP_CHECKS, ORS_CHECKS, TASK_CHECKS
from openenv.validation.conformance.server import NoAnswerError, NotOfferedError, Server
from openenv.validation.conformance.v1 import V1_CHECKS
from openenv.validation.findings import Check, fail, results_of
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus

TIMEOUT_S = 10.0
"""Seconds that an answer may take, by default."""


class WirePart(NamedTuple):
    """Part of what servers may speak.

    Attributes:
        name: Its name, for ``--part``.
        page: The page that documents it.
        checks: Its checks.
    """

    name: str
    page: str
    checks: tuple[Check[Server], ...]


PARTS = (
    WirePart("legacy", "wire.md", LEGACY_CHECKS),
    WirePart("v1", "wire-v1.md", V1_CHECKS),
    WirePart("http", "serving.md", HTTP_CHECKS),
    WirePart("mcp", "mcp.md", MCP_CHECKS),
    WirePart("tasks", "tasks.md", TASK_CHECKS),
    WirePart("ors", "ors.md", ORS_CHECKS),
)


def check_conformance(
    url: str, *, parts: Collection[str] | None = None, timeout_s: float = TIMEOUT_S, token: str | None = None
) -> Iterator[tuple[WirePart, CheckResult]]:
    """Check a server, which is reset and stepped, against the wires as they are documented.

    Args:
        url: The server's address.
        parts: Names of the parts to check; all if ``None``.
        timeout_s: Seconds that an answer may take.
        token: Token that the server requires; that of ``OPENENV_TOKEN`` if ``None``.

    Yields:
        The part and the result of each check; skipped where the server does not offer what it is about.

    Raises:
        EnvironmentNotFoundError: The address is none.

    Example:
        >>> for part, result in check_conformance("http://localhost:8000"):  # doctest: +SKIP
        ...     print(part.name, result.check_id, result.status.value)
    """
    address = Target.of(url).required({TargetKind.ADDRESS}, "The check of a server's wire").text
    server = Server(address, timeout_s, token)
    for part in PARTS:
        if parts is None or part.name in parts:
            for check in part.checks:
                yield part, _result(check, server, part)


def _result(check: Check[Server], server: Server, part: WirePart) -> CheckResult:
    start = time.perf_counter()
    try:
        findings = list(check.find(server))
    except NotOfferedError as error:
        return CheckResult(
            check_id=check.id,
            status=CheckStatus.SKIP,
            measured={"subject": check.measures},
            evidence=[f"not offered: {error}"],
            duration_s=time.perf_counter() - start,
        )
    except NoAnswerError as error:
        findings = [fail(f"expected an answer as documented; came {error}", f"See docs/{part.page}.")]
    return results_of(check, findings, round(time.perf_counter() - start, 6))[0]
