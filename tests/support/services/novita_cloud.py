"""Novita on this machine: the few calls of its API, and of the agent in a sandbox, that a server there needs."""

import base64
import json
import secrets
import struct
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.support.services.cloud_machine import Machine
from tests.support.services.fake_cloud import FakeCloud, HostedSandbox
from tests.support.services.json_server import Answer, Request
from tests.support.services.tls_tunnel import TlsTunnel, local_certificate

KEY = "sk_ada_secret"
TEMPLATE = "echo"
GOOD_IMAGE = "127.0.0.1:9/ada/echo-env:1.0"  # no registry, as the SDK asks it for the image's variables
_LAST_FRAME = 2


class FakeSandbox(HostedSandbox):
    """One sandbox, the users whose commands it has run, and whether it has ended."""

    def __init__(self, wanted: dict[str, Any], root: Path) -> None:
        identifier = f"i{secrets.token_hex(8)}"
        super().__init__(identifier, wanted, Machine(root / identifier, wanted["envVars"], "public"))
        self.users: list[str] = []
        self.is_ended = False

    def described(self) -> dict[str, Any]:
        """Say what it is."""
        fixed = {"clientID": "c", "envdVersion": "0.4.0", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 512}
        times = {"startedAt": "2026-01-01T00:00:00Z", "endAt": "2026-01-01T01:00:00Z", "state": "running"}
        labels = {"templateID": self.wanted["templateID"], "metadata": self.wanted["metadata"]}
        return {"sandboxID": self.id, "envdAccessToken": "of the agent", **fixed, **times, **labels}


class FakeNovita(FakeCloud[FakeSandbox]):
    """The service.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.templates: dict[str, dict[str, Any]] = {TEMPLATE: {}}
        self.traffic_token: str | None = None
        self._certificate, self.authority = local_certificate(root)

    def host(self, identifier: str) -> str:
        """Return the host name of a sandbox, for which there is a domain of Novita's elsewhere."""
        sandbox = self.sandboxes[identifier]
        sandbox.tunnel = sandbox.tunnel or TlsTunnel(sandbox.machine, self._certificate)
        return f"localhost:{sandbox.tunnel.port}"

    def _refusal(self, request: Request) -> Answer | None:
        if request.path in ("/health", "/process.Process/Start") or request.headers.get("x-api-key") == KEY:
            return None
        return Answer(401, {"code": 401, "message": "Invalid API key"})

    def alias(self, _request: Request, name: str) -> Answer:
        """Say whether a template is there."""
        if name not in self.templates:
            return Answer(404, {"code": 404, "message": "no such template"})
        return Answer(200, {"public": False, "templateID": name})

    def new_template(self, request: Request) -> Answer:
        """Name a template that is to be made."""
        name = request.json["name"]
        self.templates[name] = request.json
        names = {"aliases": [name], "names": [name], "tags": [], "public": False}
        return Answer(202, {"buildID": "b1", "templateID": name, **names})

    def build(self, request: Request, name: str) -> Answer:
        """Make a template."""
        self.templates[name] |= request.json
        return Answer(202, {})

    def built(self, _request: Request, name: str) -> Answer:
        """Say how far a template is."""
        entry = {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "message": "made"}
        return Answer(
            200, {"buildID": "b1", "templateID": name, "status": "ready", "logs": ["made"], "logEntries": [entry]}
        )

    def create(self, request: Request) -> Answer:
        """Make a sandbox."""
        sandbox = FakeSandbox(request.json, self.root)
        self.sandboxes[sandbox.id] = sandbox
        return Answer(201, sandbox.described() | {"trafficAccessToken": self.traffic_token})

    def listed(self, request: Request) -> Answer:
        """List sandboxes that have labels."""
        wanted = {name: values[0] for name, values in parse_qs(request.query["metadata"][0]).items()}
        found = [each for each in self.sandboxes.values() if wanted.items() <= each.wanted["metadata"].items()]
        return Answer(200, [each.described() for each in found])

    def delete(self, _request: Request, identifier: str) -> Answer:
        """Remove a sandbox."""
        if not self.remove(identifier):
            return Answer(404, {"code": 404, "message": "no such sandbox"})
        return Answer(204, b"")

    def health(self, request: Request) -> Answer:
        """Say whether a sandbox runs."""
        sandbox = self.sandboxes[request.headers["novita-sandbox-id"]]
        return Answer(502, {"code": 502, "message": "no such sandbox"}) if sandbox.is_ended else Answer(204, b"")

    def execute(self, request: Request) -> Answer:
        """Run a command: JSON in frames, each after its flags and its length."""
        sandbox = self.sandboxes[request.headers["novita-sandbox-id"]]
        assert request.headers["x-access-token"] == "of the agent"
        sandbox.users.append(request.headers.get("authorization", ""))
        process = json.loads(request.body[5:])["process"]
        assert (process["cmd"], process["args"][:2]) == ("/bin/bash", ["-l", "-c"])
        printed = base64.b64encode(sandbox.machine.run(process["args"][2]).encode()).decode()
        events = [{"start": {"pid": 7}}, {"data": {"stdout": printed}}, {"end": {"exited": True, "status": "0"}}]
        frames = [_frame(0, {"event": event}) for event in events]
        return Answer(200, b"".join([*frames, _frame(_LAST_FRAME, {})]), {"Content-Type": "application/connect+json"})

    ROUTES = (
        ("GET /templates/aliases/([^/]+)", alias),
        ("POST /v3/templates", new_template),
        ("POST /v2/templates/([^/]+)/builds/b1", build),
        ("GET /templates/([^/]+)/builds/b1/status", built),
        ("POST /sandboxes", create),
        ("GET /v2/sandboxes", listed),
        ("DELETE /sandboxes/([^/]+)", delete),
        ("GET /health", health),
        ("POST /process.Process/Start", execute),
    )


def _frame(flags: int, content: dict[str, Any]) -> bytes:
    encoded = json.dumps(content).encode()
    return struct.pack(">BI", flags, len(encoded)) + encoded
