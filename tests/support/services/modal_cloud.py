"""Modal on this machine: the few calls of its API, which speaks gRPC, that a sandbox with a server needs."""

import asyncio
import base64
import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from grpclib.const import Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from modal_proto import api_grpc, api_pb2, task_command_router_grpc, task_command_router_pb2
from tests.support.services.cloud_machine import Machine
from tests.support.services.tls_tunnel import TlsTunnel, local_certificate

TOKEN = ("ak-ada", "as-ada-secret")
GOOD_IMAGE = "ghcr.io/ada/echo-env:1.0"
BARE_IMAGE = "ghcr.io/ada/bare:1.0"
BROKEN_IMAGE = "ghcr.io/ada/broken:1.0"

_LIFETIME_S = 3600
_DONE = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
_KILLED = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)


@dataclass
class Fault:
    """What goes wrong, and how often.

    Attributes:
        call: The name of the call.
        status: What it answers.
        message: What it says.
        times: How often.
        done: Whether it is done all the same at the first time, and only the answer is lost.
        late: How many calls later it is done.
    """

    call: str
    status: Status
    message: str = "no healthy upstream"
    times: int = 99
    done: bool = False
    late: int = 0


@dataclass
class FakeSandbox:
    """One sandbox: what it was made of, and its machine."""

    id: str
    definition: api_pb2.Sandbox
    variables: dict[str, str]
    machine: Machine
    result: api_pb2.GenericResult = field(default_factory=api_pb2.GenericResult)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return not self.result.status


class _Service:
    """One gRPC service, all of whose calls go to the fake."""

    def __init__(self, kind: Any, fake: "FakeModal") -> None:
        self._kind = kind
        self._fake = fake

    def __mapping__(self) -> Mapping[str, Handler]:
        return cast("Mapping[str, Handler]", self._kind.__mapping__(self))

    def __getattr__(self, name: str) -> Callable[[Any], Awaitable[None]]:
        return partial(self._fake.answer, name)


class FakeModal:
    """The service.

    Args:
        root: A folder for the sandboxes' files.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, Any]] = []
        self.faults: list[Fault] = []
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.images: dict[str, api_pb2.Image] = {}
        self.url = ""
        self._certificate, self.authority = local_certificate(root)
        self._secrets: dict[str, Mapping[str, str]] = {}
        self._late: list[tuple[int, api_pb2.SandboxCreateRequest]] = []
        self._tunnels: list[TlsTunnel] = []
        self._printed: dict[str, asyncio.Task[str]] = {}

    @property
    def running(self) -> list[FakeSandbox]:
        """The sandboxes that have not ended."""
        return [sandbox for sandbox in self.sandboxes.values() if sandbox.runs]

    @property
    def only(self) -> FakeSandbox:
        """The one sandbox that runs."""
        (sandbox,) = self.running
        return sandbox

    def lines(self) -> list[str]:
        """The names of all calls, in order."""
        return [name for name, _ in self.calls]

    def reset(self) -> None:
        """End what still runs, and forget all that was."""
        for sandbox in self.sandboxes.values():
            sandbox.machine.end()
        for tunnel in self._tunnels:
            tunnel.close()
        for each in (self.calls, self.faults, self.sandboxes, self.images, self._late, self._tunnels):
            each.clear()

    async def serve(self, listener: socket.socket, ended: asyncio.Event) -> None:
        """Serve both of Modal's services."""
        kinds = (api_grpc.ModalClientBase, task_command_router_grpc.TaskCommandRouterBase)
        server = Server([_Service(kind, self) for kind in kinds])
        await server.start(sock=listener)
        await ended.wait()
        server.close()
        await server.wait_closed()

    async def answer(self, name: str, stream: Stream[Any, Any]) -> None:
        """Answer a call. Calls for sandboxes of the second kind differ in their names' ends only."""
        request = await stream.recv_message()
        self.calls.append((name, request))
        call = name.removesuffix("V2")
        await self._catch_up()
        await self._check(call, request, stream.metadata or {})
        handle = _HANDLERS.get(call)
        if handle is None:
            raise GRPCError(Status.UNIMPLEMENTED, name)
        answer = await handle(self, request)
        if answer is not None:
            await stream.send_message(answer)

    async def _check(self, call: str, request: Any, metadata: Mapping[str, Any]) -> None:
        is_ours = (
            metadata.get("authorization") == "Bearer jwt"
            or (
                metadata.get("x-modal-token-id"),
                metadata.get("x-modal-token-secret"),
            )
            == TOKEN
        )
        if not is_ours:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed")
        for fault in self.faults:
            if fault.times and fault.call == call:
                fault.times -= 1
                if fault.done:
                    fault.done = False
                    self._late.append((len(self.calls) + fault.late, request))
                    await self._catch_up()
                raise GRPCError(fault.status, fault.message)

    async def _catch_up(self) -> None:
        """Do what was to be done late, and is due by now."""
        due = [request for number, request in self._late if number <= len(self.calls)]
        self._late = [each for each in self._late if each[0] > len(self.calls)]
        for request in due:
            await self.create(request)

    async def hello(self, _request: Any) -> Any:
        """Greet a client."""
        return api_pb2.ClientHelloResponse()

    async def auth_token(self, _request: Any) -> Any:
        """Give a token for calls of the second kind."""
        claims = json.dumps({"exp": time.time() + _LIFETIME_S}).encode()
        return api_pb2.AuthTokenGetResponse(token=f"e30.{base64.urlsafe_b64encode(claims).decode()}.x")

    async def app(self, request: api_pb2.AppGetOrCreateRequest) -> Any:
        """Find an app."""
        return api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}")

    async def environment(self, _request: Any) -> Any:
        """Describe the environment, as Modal calls parts of a workspace."""
        metadata = api_pb2.EnvironmentMetadata(settings=api_pb2.EnvironmentSettings(image_builder_version="2025.06"))
        return api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def secret(self, request: api_pb2.SecretGetOrCreateRequest) -> Any:
        """Keep environment variables."""
        identifier = f"st-{len(self._secrets)}"
        self._secrets[identifier] = dict(request.env_dict)
        return api_pb2.SecretGetOrCreateResponse(secret_id=identifier)

    async def mount(self, _request: Any) -> Any:
        """Take the files of a build."""
        return api_pb2.MountGetOrCreateResponse(mount_id="mo-1")

    async def files(self, _request: Any) -> Any:
        """Say which files of a build are missing: none."""
        return api_pb2.MountBatchedCheckExistenceResponse()

    async def image(self, request: api_pb2.ImageGetOrCreateRequest) -> Any:
        """Build an image."""
        identifier = f"im-{len(self.images)}"
        self.images[identifier] = request.image
        result = _DONE
        if BROKEN_IMAGE in " ".join(request.image.dockerfile_commands):
            failure = api_pb2.GenericResult.GENERIC_STATUS_FAILURE
            result = api_pb2.GenericResult(status=failure, exception="no such image")
        return api_pb2.ImageGetOrCreateResponse(image_id=identifier, result=result)

    async def create(self, request: Any) -> Any:
        """Make a sandbox."""
        definition = request.definition
        if any(each.definition.name == definition.name for each in self.running):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox {definition.name} already exists")
        identifier = f"sb-{secrets.token_hex(8)}"
        variables: dict[str, str] = {}
        for each in definition.secret_ids:
            variables |= self._secrets[each]
        is_second_kind = isinstance(request, api_pb2.SandboxCreateV2Request)
        if is_second_kind:
            for source in request.secret_sources:
                variables |= dict(source.env.contents)
        is_bare = BARE_IMAGE in " ".join(self.images[definition.image_id].dockerfile_commands)
        machine = Machine(self.root / identifier, variables, "none" if is_bare else "public")
        self.sandboxes[identifier] = FakeSandbox(identifier, definition, variables, machine)
        if is_second_kind:
            return api_pb2.SandboxCreateV2Response(sandbox_id=identifier, task_id=f"ta-{identifier}-V")
        return api_pb2.SandboxCreateResponse(sandbox_id=identifier)

    async def task(self, request: api_pb2.SandboxGetTaskIdRequest) -> Any:
        """Say what a sandbox runs as."""
        return api_pb2.SandboxGetTaskIdResponse(task_id=f"ta-{request.sandbox_id}")

    async def find(self, request: api_pb2.SandboxGetFromNameRequest) -> Any:
        """Find a sandbox by its name."""
        for sandbox in self.running:
            if sandbox.definition.name == request.sandbox_name:
                return api_pb2.SandboxGetFromNameResponse(sandbox_id=sandbox.id)
        raise GRPCError(Status.NOT_FOUND, "Sandbox not found")

    async def wait(self, request: api_pb2.SandboxWaitRequest) -> Any:
        """Say how a sandbox has ended."""
        return api_pb2.SandboxWaitResponse(result=self.sandboxes[request.sandbox_id].result)

    def end(self, sandbox: FakeSandbox) -> None:
        """End a sandbox, as its time is up."""
        sandbox.result = _KILLED
        sandbox.machine.end()

    async def terminate(self, request: api_pb2.SandboxTerminateRequest) -> Any:
        """End a sandbox, as its maker wishes."""
        await asyncio.to_thread(self.end, self.sandboxes[request.sandbox_id])
        return api_pb2.SandboxTerminateResponse()

    async def tunnels(self, request: api_pb2.SandboxGetTunnelsRequest) -> Any:
        """Open the tunnel to a sandbox's server."""
        sandbox = self.sandboxes[request.sandbox_id]
        self._tunnels.append(TlsTunnel(sandbox.machine, self._certificate))
        (port,) = (each.port for each in sandbox.definition.open_ports.ports)
        tunnel = api_pb2.TunnelData(host="localhost", port=self._tunnels[-1].port, container_port=port)
        return api_pb2.SandboxGetTunnelsResponse(result=_DONE, tunnels=[tunnel])

    async def task_router(self, _request: Any) -> Any:
        """Say where commands go."""
        return api_pb2.TaskGetCommandRouterAccessResponse(url=self.url, jwt="jwt")

    async def sandbox_router(self, _request: Any) -> Any:
        """Say where commands go in a sandbox of the second kind."""
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=self.url, jwt="jwt")

    async def execute(self, request: task_command_router_pb2.TaskExecStartRequest) -> Any:
        """Run a command."""
        sandbox = next((each for each in self.running if each.id in request.task_id), None)
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, "Sandbox has already finished")
        shell, option, command = request.command_args
        assert (shell, option) == ("sh", "-c")
        run = asyncio.to_thread(sandbox.machine.run, command)
        self._printed[request.exec_id] = asyncio.create_task(run)
        return task_command_router_pb2.TaskExecStartResponse()

    async def printed(self, request: task_command_router_pb2.TaskExecStdioReadRequest) -> Any:
        """Show what a command has printed."""
        printed = (await self._printed[request.exec_id]).encode()[request.offset :]
        return task_command_router_pb2.TaskExecStdioReadResponse(data=printed) if printed else None

    async def executed(self, request: task_command_router_pb2.TaskExecWaitRequest) -> Any:
        """Say how a command has ended."""
        await self._printed[request.exec_id]
        return task_command_router_pb2.TaskExecWaitResponse(code=0)


_HANDLERS: dict[str, Callable[[FakeModal, Any], Awaitable[Any]]] = {
    "ClientHello": FakeModal.hello,
    "AuthTokenGet": FakeModal.auth_token,
    "AppGetOrCreate": FakeModal.app,
    "EnvironmentGetOrCreate": FakeModal.environment,
    "SecretGetOrCreate": FakeModal.secret,
    "MountGetOrCreate": FakeModal.mount,
    "MountBatchedCheckExistence": FakeModal.files,
    "ImageGetOrCreate": FakeModal.image,
    "SandboxCreate": FakeModal.create,
    "SandboxGetTaskId": FakeModal.task,
    "SandboxGetFromName": FakeModal.find,
    "SandboxWait": FakeModal.wait,
    "SandboxTerminate": FakeModal.terminate,
    "SandboxGetTunnels": FakeModal.tunnels,
    "SandboxGetCommandRouterAccess": FakeModal.sandbox_router,
    "TaskGetCommandRouterAccess": FakeModal.task_router,
    "TaskExecStart": FakeModal.execute,
    "TaskExecStdioRead": FakeModal.printed,
    "TaskExecWait": FakeModal.executed,
}


@contextlib.contextmanager
def serving_modal(root: Path) -> Iterator[FakeModal]:
    """Serve the API for a while."""
    fake = FakeModal(root)
    listener = socket.create_server(("127.0.0.1", 0))
    fake.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(fake.serve(listener, ended),))
    thread.start()
    try:
        yield fake
    finally:
        fake.reset()
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
