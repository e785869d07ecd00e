"""axe, which finds what keeps people from using a page; from npm."""

from functools import cache
from typing import Any

from tests.support.services.npm_packages import NpmProgram

_AXE = NpmProgram(package="axe-core", version="4.14.1", name="axe-core")
_RUN = "() => axe.run(document, {resultTypes: ['violations']})"


def violations(page: Any) -> list[str]:
    """Return what axe finds in a page of Playwright, a line for each rule and element."""
    page.evaluate(_source())
    found = page.evaluate(_RUN)["violations"]
    return [f"{rule['id']}: {rule['help']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


@cache
def _source() -> str:
    _AXE.install()
    return (_AXE.folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
