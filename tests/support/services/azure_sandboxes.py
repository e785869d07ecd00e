"""Sandboxes of Azure Container Apps on this machine: the few calls of their API that a server there needs."""

import secrets
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.services.cloud_machine import Machine
from tests.support.services.fake_cloud import FakeCloud, HostedSandbox
from tests.support.services.json_server import Answer, Request
from tests.support.services.tls_tunnel import TlsTunnel, local_certificate

KEY = "eyJ-ada-secret"
DISK = "echo"
_GROUP = "/subscriptions/s/resourceGroups/rg/sandboxGroups/sg"
_SANDBOX = f"{_GROUP}/sandboxes/([^/]+)"


class AccessToken(NamedTuple):
    """What a credential gives."""

    token: str
    expires_on: int


class Credential:
    """A login that needs no other service."""

    def __init__(self, key: str = KEY) -> None:
        self._key = key

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        """Give the key."""
        return AccessToken(self._key, int(time.time()) + 3600)


class FakeSandbox(HostedSandbox):
    """One sandbox, and the states that are still to come."""

    def __init__(self, wanted: dict[str, Any], states: list[str], root: Path) -> None:
        identifier = secrets.token_hex(8)
        super().__init__(identifier, wanted, Machine(root / identifier, wanted.get("environment", {}), "public"))
        self.states = states
        self.ports: list[dict[str, Any]] = []
        self.details: dict[str, Any] | None = None

    def described(self) -> dict[str, Any]:
        """Say what it is and in which state; each look brings the next state."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {**self.wanted, "id": self.id, "state": state, "stateDetails": self.details, "ports": self.ports}


class FakeAzure(FakeCloud[FakeSandbox]):
    """The service, whose SDK wants it encrypted.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.states = ["Creating", "Running"]
        self.certificate, self.authority = local_certificate(root)

    def _refusal(self, request: Request) -> Answer | None:
        if request.headers.get("authorization") == f"Bearer {KEY}":
            return None
        return Answer(401, {"error": {"code": "Unauthorized", "message": "the token is expired"}})

    def create(self, request: Request) -> Answer:
        """Make a sandbox."""
        sandbox = FakeSandbox(request.json, [*self.states], self.root)
        self.sandboxes[sandbox.id] = sandbox
        return Answer(201, sandbox.described())

    def listed(self, request: Request) -> Answer:
        """List sandboxes that have labels."""
        wanted = dict(each.split("=") for each in request.query["labels"][0].split(","))
        found = [each for each in self.sandboxes.values() if wanted.items() <= each.wanted["labels"].items()]
        return Answer(200, {"value": [each.described() for each in found]})

    def inspect(self, _request: Request, identifier: str) -> Answer:
        """Tell of a sandbox."""
        sandbox = self.sandboxes.get(identifier)
        return _missing() if sandbox is None else Answer(200, sandbox.described())

    def delete(self, _request: Request, identifier: str) -> Answer:
        """Remove a sandbox."""
        return Answer(202, b"") if self.remove(identifier) else _missing()

    def execute(self, request: Request, identifier: str) -> Answer:
        """Run a command."""
        printed = self.sandboxes[identifier].machine.run(request.json["command"])
        return Answer(200, {"exitCode": 0, "stdout": printed, "stderr": ""})

    def open_port(self, request: Request, identifier: str) -> Answer:
        """Open a port."""
        sandbox = self.sandboxes[identifier]
        sandbox.tunnel = sandbox.tunnel or TlsTunnel(sandbox.machine, self.certificate)
        sandbox.ports.append({**request.json, "url": f"https://localhost:{sandbox.tunnel.port}/"})
        return Answer(200, {"ports": sandbox.ports})

    ROUTES = (
        (f"PUT {_GROUP}/sandboxes", create),
        (f"GET {_GROUP}/sandboxes", listed),
        (f"GET {_SANDBOX}", inspect),
        (f"DELETE {_SANDBOX}", delete),
        (f"POST {_SANDBOX}/executeShellCommand", execute),
        (f"POST {_SANDBOX}/ports/add", open_port),
    )


def _missing() -> Answer:
    return Answer(404, {"error": {"code": "NotFound", "message": "no such sandbox"}})
