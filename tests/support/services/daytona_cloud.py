"""Daytona on this machine: the few endpoints of its API that a sandbox with a server needs."""

import base64
import re
import secrets
from pathlib import Path
from typing import Any

from tests.support.services.cloud_machine import Machine
from tests.support.services.fake_cloud import FakeCloud, HostedSandbox
from tests.support.services.json_server import Answer, Request

KEY = "dtn_ada"
GOOD_IMAGE = "ghcr.io/ada/echo-env:1.0"
BARE_IMAGE = "ghcr.io/ada/bare:1.0"
# What SDKs wrap commands in, and what older versions of Daytona, in which no shell reads them, can take apart.
_WRAPPED = re.compile(r"""sh -c "echo '([A-Za-z0-9+/=]+)' \| base64 -d \| sh\"""")


class FakeSandbox(HostedSandbox):
    """One sandbox, its token, and the states that are still to come."""

    def __init__(self, wanted: dict[str, Any], states: list[str], root: Path) -> None:
        identifier = secrets.token_hex(16)
        dockerfile = wanted.get("buildInfo", {}).get("dockerfileContent", "")
        machine = Machine(root / identifier, wanted["env"], "none" if BARE_IMAGE in dockerfile else "public")
        super().__init__(identifier, wanted, machine)
        self.states = states
        self.token = secrets.token_hex(8)

    def described(self, toolbox: str) -> dict[str, Any]:
        """Say what it is and in which state; each look brings the next state."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        reason = {"errorReason": "no such image"} if state.endswith("failed") else {}
        return {**self.wanted, "id": self.id, "state": state, "toolboxProxyUrl": toolbox, **reason}


class FakeDaytona(FakeCloud[FakeSandbox]):
    """The service.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.has_tmp = True
        self.has_cut_off_try = False
        self.states = ["pending_build", "building_snapshot", "starting", "started"]

    def _refusal(self, request: Request) -> Answer | None:
        if request.headers.get("authorization") == f"Bearer {KEY}":
            return None
        return Answer(401, {"statusCode": 401, "error": "Unauthorized", "message": "Invalid credentials"})

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
        self.remove(name)
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

    ROUTES = (
        ("POST /api/sandbox", create),
        ("GET /api/sandbox/([^/]+)", show),
        ("DELETE /api/sandbox/([^/]+)", delete),
        ("GET /api/sandbox/([^/]+)/ports/(\\d+)/preview-url", preview),
        ("GET /api/sandbox/([^/]+)/ports/(\\d+)/(signed)-preview-url", preview),
        ("POST /toolbox/([^/]+)/process/execute", execute),
    )


def _missing(name: str) -> Answer:
    return Answer(404, {"message": f"Sandbox with ID or name {name} not found"})
