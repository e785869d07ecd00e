"""A small cluster for the tests: kmock answers for its API, and a stand-in for a node runs pods as real processes.

What kmock lacks is added: uids, selectors, watches that miss nothing, the checks of the object schemas, owners, logs,
port forwarding as kubelets do it, and faults on demand. A pod has an address of its own, one of 127.0.0.0/8.
"""

import asyncio
import base64
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import kmock
import kubernetes_validate  # type: ignore[import-untyped]
import yaml
from aiohttp import WSMsgType
from aiohttp.web import BaseRequest, Response, StreamResponse, WebSocketResponse, json_response
from tests.support.servers import PROGRAMS, eventually

Manifest = dict[str, Any]

NAMESPACE = "training"
ROOT = Path(__file__).resolve().parents[3]
_PODS = kmock.resource("v1/pods")
_SECRETS = kmock.resource("v1/secrets")
_EVENTS = kmock.resource("v1/events")
_SCHEMAS = "1.37"
_OK = 200
_LOOK_S = 0.01
_VERBS = {"fetch": "get", "update": "patch"}
"""What kmock calls otherwise than Kubernetes."""
_HEALTHY = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
address = os.environ["POD_IP"], int(os.environ["PORT"])
print("as healthy as can be", flush=True)
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""
"""Answers anybody anything with status 200, and starts in a fraction of the time of a real server."""
_SUBRESOURCE = re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods/(?P<pod>[^/]+)/(?P<what>log|portforward)")


@dataclass
class Fault:
    """What the API does wrong with requests of one kind, as often as it is asked.

    Attributes:
        method: Of which method they are.
        path: What their path must match.
        status: Status of the answer; 0 for none at all, ever, and 200 for one that is no JSON.
        message: What the answer says.
    """

    method: str
    path: str
    status: int
    message: str = ""

    def applies(self, request: BaseRequest) -> bool:
        return request.method == self.method and re.search(self.path, request.path) is not None


class ApiServer(kmock.KubernetesEmulator):
    """The API of the cluster.

    Attributes:
        faults: What it does wrong.
        skew_s: Seconds by which its clock is ahead.
        used: Verbs and resources of all requests, as a Role names them.
    """

    def __init__(self, node: "Node") -> None:
        super().__init__()
        self.node = node
        self.faults: list[Fault] = []
        self.skew_s = 0.0
        self.used: set[tuple[str, str]] = set()
        for resource in (_PODS, _SECRETS, _EVENTS):
            self.resources[resource] = {}  # type: ignore[assignment]  # all of its keys have defaults

    async def __call__(self, raw_request: BaseRequest) -> StreamResponse:
        for fault in self.faults:
            if fault.applies(raw_request):
                return await _answer_badly(fault)
        found = _SUBRESOURCE.fullmatch(raw_request.path)
        if found is not None:
            self.used.add(("get", f"pods/{found['what']}"))
            return await self._subresource(found["pod"], found["what"], raw_request)
        return await super().__call__(raw_request)

    async def _subresource(self, pod: str, what: str, request: BaseRequest) -> StreamResponse:
        if what == "portforward":
            return await self.node.forward(pod, request)
        log = self.node.logs.get(pod)
        return json_response({"message": "waiting to start"}, status=400) if log is None else Response(body=bytes(log))

    async def _handle(self, request: kmock.Request) -> Any:
        assert request.action is not None
        assert request.resource is not None
        self.used.add((_verb(request.action), str(request.resource.plural)))
        if request.action is kmock.action.CREATE:
            created = self._stamp(request)
            try:
                kubernetes_validate.validate(created, _SCHEMAS, strict=True)
            except kubernetes_validate.ValidationError as error:
                return json_response({"kind": "Status", "message": error.message}, status=422)
        try:
            response = await super()._handle(request)
        except kmock.KubernetesError as error:
            response = await self._render_error(error)
        if self.skew_s:
            response.headers["Date"] = formatdate(time.time() + self.skew_s, usegmt=True)
        if request.resource == _PODS and request.name is not None and request.action is kmock.action.DELETE:
            self.node.kill(request.name)
            self._remove_owned(request.name)
        elif request.resource == _PODS and request.action is kmock.action.CREATE:
            self.node.begin(request.data["metadata"]["name"])
        return response

    def _stamp(self, request: kmock.Request) -> Manifest:
        """Add what a cluster adds to a new object; it is a dict that kmock keeps."""
        created: Manifest = request.data
        created["metadata"] |= {"namespace": request.namespace, "uid": f"{random.getrandbits(64):016x}"}
        if created["kind"] == "Pod":
            created["status"] = {"phase": "Pending"}
        return created

    def _remove_owned(self, pod: str) -> None:
        for (_, _, name), secret in list(self.objects.items()):
            if not secret.deleted and any(
                owner["name"] == pod for owner in secret.raw["metadata"].get("ownerReferences", [])
            ):
                self.objects[_SECRETS, NAMESPACE, name].delete()

    async def _serve_list(self, request: kmock.Request) -> Any:
        listed: Any = await super()._serve_list(request)
        listed["items"] = [item for item in listed["items"] if _is_selected(item, request.params)]
        return listed

    async def _serve_watch(self, request: kmock.Request) -> AsyncIterator[Any]:
        """Look again and again, for as long as was asked; kmock's own misses what happens while it begins."""
        yield b""
        seen: dict[str, str] = {}
        ends_at = time.monotonic() + float(request.params["timeoutSeconds"])
        while time.monotonic() < ends_at:
            listed = await self._serve_list(request)
            items = {item["metadata"]["name"]: item for item in listed["items"]}
            for name, item in items.items():
                if seen.get(name) != (text := json.dumps(item)):
                    yield {"type": "MODIFIED" if name in seen else "ADDED", "object": json.loads(text)}
                    seen[name] = text
            for name in seen.keys() - items.keys():
                yield {"type": "DELETED", "object": json.loads(seen.pop(name))}
            await asyncio.sleep(_LOOK_S)


class Node:
    """Runs the pods; what becomes of one depends on its image.

    Attributes:
        logs: What servers have printed, by their pods.
        images: What is run for an image, with Python.
    """

    def __init__(self) -> None:
        self.api: ApiServer
        self.logs: dict[str, bytearray] = {}
        self.images = {
            "registry.test/counter:1": [str(PROGRAMS / "pod_server.py")],
            "registry.test/healthy:1": ["-I", "-c", _HEALTHY],
            "registry.test/broken:1": ["-c", "import sys; sys.exit('no such module: numpty')"],
            "registry.test/silent:1": ["-c", "import time; print('thinking ...', flush=True); time.sleep(600)"],
            "registry.test/short:1": ["-c", "print('that was all')"],
        }
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, pod: str) -> None:
        self._spawn(self._run(pod))

    def kill(self, pod: str) -> None:
        process = self._processes.pop(pod, None)
        if process is not None and process.returncode is None:
            process.kill()

    def pid(self, pod: str) -> int:
        return self._processes[pod].pid

    async def stop(self) -> None:
        for pod in list(self._processes):
            self.kill(pod)
        _, waiting = await asyncio.wait([*self._tasks, asyncio.create_task(asyncio.sleep(0))], timeout=5)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def set_status(self, pod: str, **status: Any) -> None:
        found = self.api.objects[_PODS, NAMESPACE, pod]
        if not found.deleted:
            found.patch({"status": status})

    def warn(self, pod: str, reason: str, message: str) -> None:
        name = f"{pod}.{random.getrandbits(32):x}"
        about = {"kind": "Pod", "name": pod, "namespace": NAMESPACE}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": NAMESPACE}}
        event |= {"involvedObject": about, "type": "Warning", "reason": reason, "message": message}
        self.api.objects[_EVENTS, NAMESPACE, name] = event

    async def forward(self, pod: str, request: BaseRequest) -> StreamResponse:
        """Carry a WebSocket's channel 0 to a port of a pod and back; what went wrong goes on channel 1."""
        found = self.api.objects[_PODS, NAMESPACE, pod]
        if found.deleted:
            return json_response({"message": f'pods "{pod}" not found'}, status=404)
        port = int(request.query["ports"])
        socket = WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        for channel in (b"\0", b"\1"):
            await socket.send_bytes(channel + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection(found.raw["status"]["podIP"], port)
        except OSError as error:
            await socket.send_bytes(b"\1" + str(error).encode())
            await socket.close()
            return socket
        back = asyncio.create_task(_carry_back(reader, socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data[1:])
        finally:  # a tunnel that is cut says no goodbye
            back.cancel()
            writer.close()
        return socket

    def _spawn(self, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: str) -> None:
        container = self.api.objects[_PODS, NAMESPACE, pod].raw["spec"]["containers"][0]
        program = self.images.get(container["image"])
        if container["image"] == "registry.test/too-big:1":
            message = "0/3 nodes are available: 3 Insufficient memory."
            unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self.set_status(pod, conditions=[unmet])
            self.warn(pod, "FailedScheduling", message)
        elif program is None:
            message = f'failed to pull and unpack image "{container["image"]}": not found'
            self.warn(pod, "Failed", message)
            self._wait(pod, "ErrImagePull", message)
            self._wait(pod, "ImagePullBackOff", f'Back-off pulling image "{container["image"]}"')
        else:
            await self._run_program(pod, program, container["env"])

    async def _run_program(self, pod: str, program: list[str], env: list[Manifest]) -> None:
        address = ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])
        variables = await self._variables(pod, env)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            env={**variables, "POD_IP": address, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._processes[pod] = process
        self.logs[pod] = bytearray()
        running = {"name": "server", "restartCount": 0, "state": {"running": {}}}
        self.set_status(pod, phase="Running", podIP=address, containerStatuses=[running])
        assert process.stdout is not None
        while chunk := await process.stdout.read(4096):
            self.logs[pod] += chunk
        await self._end(pod, await process.wait())

    async def _end(self, pod: str, code: int) -> None:
        """Say how a server ended; with its ``restartPolicy``, one that failed waits to be started again."""
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        if code == 0:
            over = {"name": "server", "restartCount": 0, "state": ended}
            self.set_status(pod, phase="Succeeded", containerStatuses=[over])
            return
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
        crashed = {"name": "server", "restartCount": 1, "state": waiting, "lastState": ended}
        self.set_status(pod, containerStatuses=[crashed])
        self.warn(pod, "BackOff", "Back-off restarting failed container server")

    async def _variables(self, pod: str, env: list[Manifest]) -> dict[str, str]:
        """Read the container's variables; while their Secret is not there yet, say so."""
        plain = {entry["name"]: entry["value"] for entry in env if "value" in entry}
        referred = {entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in env if "valueFrom" in entry}
        for name, reference in referred.items():
            while (_SECRETS, NAMESPACE, reference["name"]) not in self.api.objects:
                self._wait(pod, "CreateContainerConfigError", f'secret "{reference["name"]}" not found')
                await asyncio.sleep(_LOOK_S)
                if self.api.objects[_PODS, NAMESPACE, pod].deleted:
                    raise asyncio.CancelledError
            plain[name] = self.api.objects[_SECRETS, NAMESPACE, reference["name"]].raw["stringData"][reference["key"]]
        return plain

    def _wait(self, pod: str, reason: str, message: str) -> None:
        waiting = {"waiting": {"reason": reason, "message": message}}
        self.set_status(pod, containerStatuses=[{"name": "server", "restartCount": 0, "state": waiting}])


class TestCluster:
    """The cluster, in a thread of this process."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.node = Node()
        self.kubeconfig = folder / "kubeconfig.yaml"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="cluster", daemon=True)

    @property
    def api(self) -> ApiServer:
        return self.node.api

    def pods(self) -> dict[str, Manifest]:
        """Return the pods that there are, by their names."""
        return self._objects(_PODS)

    def secrets(self) -> dict[str, Manifest]:
        return self._objects(_SECRETS)

    def requests(self, method: str, path: str) -> list[kmock.Request]:
        """Return what was asked of the API so far."""
        asked = list(self.api)
        return [entry for entry in asked if entry.method.value.upper() == method and re.search(path, entry.url.path)]

    def break_down(self, method: str, path: str, status: int, message: str = "") -> Fault:
        """Have the API do something wrong from now on."""
        fault = Fault(method, path, status, message)
        self.api.faults.append(fault)
        return fault

    def repair(self) -> None:
        self.api.faults.clear()

    def change_pod(self, name: str, patch: Manifest) -> None:
        """Change a pod behind everybody's back."""
        self.do(lambda: self.api.objects[_PODS, NAMESPACE, name].patch(patch))

    def delete_pod(self, name: str) -> None:
        """Delete a pod as somebody else would."""
        self.do(self.api.objects[_PODS, NAMESPACE, name].delete)
        self.do(lambda: self.node.kill(name))

    def set_status(self, pod: str, **status: Any) -> None:
        self.do(lambda: self.node.set_status(pod, **status))

    def do(self, action: Callable[[], Any]) -> Any:
        """Do something in the cluster's own thread."""

        async def act() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(60)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60), "the cluster did not begin"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.repair()
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        assert not self._thread.is_alive(), "the cluster did not end"

    def _objects(self, resource: Any) -> dict[str, Manifest]:
        def look() -> dict[str, Manifest]:
            objects = self.api.objects.items()
            return {name: found.raw for (kind, _, name), found in objects if kind == resource and not found.deleted}

        found: dict[str, Manifest] = self.do(look)
        return found

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self.node.api = ApiServer(self.node)
        async with self.node.api, kmock.Server(self.node.api) as server:
            self._write_kubeconfig(str(server.url).rstrip("/"))
            self._ready.set()
            await self._end.wait()
            await self.node.stop()

    def _write_kubeconfig(self, url: str) -> None:
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": {"server": url}}],
                    "users": [{"name": "tester", "user": {"token": "of-the-tester"}}],
                    "contexts": [
                        {"name": "test", "context": {"cluster": "test", "user": "tester", "namespace": NAMESPACE}}
                    ],
                    "current-context": "test",
                }
            )
        )


async def _answer_badly(fault: Fault) -> StreamResponse:
    if fault.status == 0:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    if fault.status == _OK:
        return Response(text=fault.message)
    return json_response({"kind": "Status", "message": fault.message}, status=fault.status or 500)


async def _carry_back(reader: asyncio.StreamReader, socket: WebSocketResponse) -> None:
    while data := await reader.read(65536):
        await socket.send_bytes(b"\0" + data)
    await socket.close()


def _verb(action: kmock.action) -> str:
    name = str(action.value).lower()
    return _VERBS.get(name, name)


def _is_selected(item: Manifest, params: Any) -> bool:
    labels = item["metadata"].get("labels", {})
    terms = [term.partition("=") for term in _terms(params, "labelSelector")]
    if any(labels.get(key) != value for key, _, value in terms):
        return False
    fields = [term.partition("=") for term in _terms(params, "fieldSelector")]
    return all(_field(item, path) == value for path, _, value in fields)


def _terms(params: Any, name: str) -> Iterable[str]:
    return filter(None, params.get(name, "").split(","))


def _field(item: Manifest, path: str) -> Any:
    value: Any = item
    for key in path.split("."):
        value = value[key]
    return value


def decoded(secret: Manifest) -> dict[str, str]:
    """Return a Secret's values, however they were written."""
    data = {name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()}
    given: dict[str, str] = secret.get("stringData", {})
    return data | given


def wait_for_pod(cluster: TestCluster) -> str:
    """Wait until there is one pod, and return its name."""
    eventually(lambda: len(cluster.pods()) == 1, "there is a pod")
    return next(iter(cluster.pods()))
