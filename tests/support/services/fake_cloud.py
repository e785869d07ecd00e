"""What the fakes of cloud services have in common: their endpoints, and the sandboxes that there are."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import unquote

from tests.support.services.cloud_machine import Machine
from tests.support.services.json_server import Answer, JsonServer, Request
from tests.support.services.tls_tunnel import TlsTunnel


class HostedSandbox:
    """A sandbox: its id, what it was made of, its machine, and the tunnel that leads there, if there is one."""

    def __init__(self, identifier: str, wanted: dict[str, Any], machine: Machine) -> None:
        self.id = identifier
        self.wanted = wanted
        self.machine = machine
        self.tunnel: TlsTunnel | None = None


SandboxT = TypeVar("SandboxT", bound=HostedSandbox)


class RoutedServer(JsonServer):
    """An API whose endpoints stand in a table."""

    ROUTES: ClassVar[Sequence[tuple[str, Callable[..., Answer]]]]
    """Method and path as a regular expression, and the method that gets its groups."""

    def _refusal(self, request: Request) -> Answer | None:
        """Return the answer to a request that may not be made; ``None`` to one that may."""
        raise NotImplementedError

    def _route(self, request: Request) -> Answer:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        for pattern, handle in self.ROUTES:
            found = re.fullmatch(pattern, request.line)
            if found:
                return handle(self, request, *map(unquote, found.groups()))
        return super()._route(request)


class FakeCloud(RoutedServer, Generic[SandboxT]):
    """A service with sandboxes.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.sandboxes: dict[str, SandboxT] = {}
        self.removed: list[SandboxT] = []

    @property
    def only(self) -> SandboxT:
        """The one sandbox that there is."""
        (sandbox,) = self.sandboxes.values()
        return sandbox

    def remove(self, identifier: str) -> bool:
        """Remove a sandbox, and say whether it was there."""
        sandbox = self.sandboxes.pop(identifier, None)
        if sandbox is None:
            return False
        self.removed.append(sandbox)
        sandbox.machine.end()
        return True

    def end(self) -> None:
        """End what still runs."""
        for sandbox in (*self.sandboxes.values(), *self.removed):
            sandbox.machine.end()
            if sandbox.tunnel is not None:
                sandbox.tunnel.close()
