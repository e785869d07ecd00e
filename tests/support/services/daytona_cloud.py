"""Daytona on this machine: the few endpoints of its API that a sandbox with a server needs."""

import base64
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.services.cloud_machine import Machine
from tests.support.services.json_server import Answer, JsonServer, Request

KEY = "dtn_ada"
GOOD_IMAGE = "ghcr.io/ada/echo-env:1.0"
BARE_IMAGE = "ghcr.io/ada/bare:1.0"
# What SDKs wrap commands in, and what older versions of Daytona, in which no shell reads them, can take apart.
_WRAPPED = re.compile(r"""sh -c "echo '([A-Za-z0-9+/=]+)' \| base64 -d \| sh\"""")


class FakeSandbox:
    """One sandbox: what it was made of, the states that are still to come, and its machine."""

    def __init__(self, wanted: dict[str, Any], states: list[str], root: Path) -> None:
        self.id = secrets.token_hex(16)
        self.wanted = wanted
        self.states = states
        self.token = secrets.token_hex(8)
        dockerfile = wanted.get("buildInfo", {}).get("dockerfileContent", "")
        self.machine = Machine(root / self.id, wanted["env"], "none" if BARE_IMAGE in dockerfile else "public")

    def described(self, toolbox: str) -> dict[str, Any]:
        """Say what it is and in which state; each look brings the next state."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        reason = {"errorReason": "no such image"} if state.endswith("failed") else {}
        return {**self.wanted, "id": self.id, "state": state, "toolboxProxyUrl": toolbox, **reason}


class FakeDaytona(JsonServer):
    """The service.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.removed: list[FakeSandbox] = []
        self.has_tmp = True
        self.has_cut_off_try = False
        self.states = ["pending_build", "building_snapshot", "starting", "started"]

    @property
    def only(self) -> FakeSandbox:
        """The one sandbox that there is."""
        (sandbox,) = self.sandboxes.values()
        return sandbox

    def end(self) -> None:
        """End what still runs."""
        for sandbox in (*self.sandboxes.values(), *self.removed):
            sandbox.machine.end()

    def _route(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Answer(401, {"statusCode": 401, "error": "Unauthorized", "message": "Invalid credentials"})
        for pattern, handle in ROUTES:
            found = re.fullmatch(pattern, request.line)
            if found:
                return handle(self, request, *map(unquote, found.groups()))
        return super()._route(request)

    def create(self, request: Request) -> Answer:
        """Make a sandbox."""
        name = request.json["name"]
        if name in self.sandboxes:
            return Answer(409, {"message": f"Sandbox with name {name} already exists"})
        sandbox = self.sandboxes[name] = FakeSandbox(request.json, [*self.states], self.root)
        if not self.has_tmp:
            (sandbox.machine.root / "tmp").rmdir()
        if self.has_cut_off_try:
            (sandbox.machine.root / "tmp" / name).mkdir()
        return Answer(200, self.sandboxes[name].described(f"{self.url}/toolbox/"))

    def show(self, _request: Request, name: str) -> Answer:
        """Tell of a sandbox."""
        sandbox = self.sandboxes.get(name)
        return Answer(200, sandbox.described(f"{self.url}/toolbox/")) if sandbox else _missing(name)

    def delete(self, _request: Request, name: str) -> Answer:
        """Remove a sandbox."""
        sandbox = self.sandboxes.get(name)
        if sandbox is None:
            return _missing(name)
        if len(sandbox.states) > 1:
            sandbox.states.pop(0)
            return Answer(409, {"message": "Sandbox state change in progress"})
        self.removed.append(self.sandboxes.pop(name))
        sandbox.machine.end()
        return Answer(200, {})

    def preview(self, request: Request, name: str, port: str, signed: str | None = None) -> Answer:
        """Say where a port is reached."""
        assert port == "8000"
        sandbox = self.sandboxes[name]
        if signed:
            assert int(request.query["expiresInSeconds"][0]) <= 24 * 3600
            return Answer(200, {"url": sandbox.machine.proxy({})})
        url = sandbox.machine.proxy({"x-daytona-preview-token": sandbox.token})
        return Answer(200, {"sandboxId": sandbox.id, "url": url, "token": sandbox.token})

    def execute(self, request: Request, sandbox_id: str) -> Answer:
        """Run a command."""
        found = _WRAPPED.fullmatch(request.json["command"])
        assert found is not None
        machine = next(each.machine for each in self.sandboxes.values() if each.id == sandbox_id)
        return Answer(200, {"exitCode": 0, "result": machine.run(base64.b64decode(found[1]).decode())})


ROUTES: list[tuple[str, Callable[..., Answer]]] = [
    ("POST /api/sandbox", FakeDaytona.create),
    ("GET /api/sandbox/([^/]+)", FakeDaytona.show),
    ("DELETE /api/sandbox/([^/]+)", FakeDaytona.delete),
    ("GET /api/sandbox/([^/]+)/ports/(\\d+)/preview-url", FakeDaytona.preview),
    ("GET /api/sandbox/([^/]+)/ports/(\\d+)/(signed)-preview-url", FakeDaytona.preview),
    ("POST /toolbox/([^/]+)/process/execute", FakeDaytona.execute),
]


def _missing(name: str) -> Answer:
    return Answer(404, {"message": f"Sandbox with ID or name {name} not found"})
