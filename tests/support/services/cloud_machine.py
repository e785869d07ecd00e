"""What fakes of cloud services run sandboxes on: a folder as the machine, real processes, and the service's proxy."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

_CHUNK = 65536
_UNAUTHORIZED = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /login\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NOT_UP = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Machine:
    """A sandbox: commands run as processes here, with ``/app`` and ``/tmp`` in a folder of its own.

    Args:
        root: The folder.
        variables: Its environment variables.
        layout: How the image has the echo environment: as the public package's, a folder in ``/app/env``; as ours, a
            command ``server``; or not at all.
    """

    def __init__(self, root: Path, variables: Mapping[str, str], layout: Literal["public", "ours", "none"]) -> None:
        self.root = root
        self.proxies: list[Proxy] = []
        self._processes: list[subprocess.Popen[str]] = []
        (root / "tmp").mkdir(parents=True)
        (root / "app").mkdir()
        (root / "bin").mkdir()
        self._add_command("python", f'exec {sys.executable} "$@"')
        if layout == "ours":
            self._add_command("server", 'exec python -m echo_env.server.app "$@"')
        if layout == "public":
            server = root / "app" / "env" / "server"
            server.mkdir(parents=True)
            (server / "app.py").write_text("from echo_env.server.app import app\n")
            (server.parent / "openenv.yaml").write_text(
                'name: echo_env\napp: "server.app:app"  # as there\nport: 8000\n'
            )
        # Images may have a PORT, as those of Spaces do, which no server is to take for its own.
        own = {"PATH": f"{root}/bin:/usr/bin:/bin", "HOME": str(root), "PORT": "of the image"}
        self._variables = {**own, **variables}

    def _add_command(self, name: str, script: str) -> None:
        command = self.root / "bin" / name
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)

    def run(self, command: str) -> str:
        """Run a shell command as the sandbox would, and return what it printed."""
        return self._start(command, subprocess.PIPE).communicate(timeout=60)[0]

    def spawn(self, command: str) -> int:
        """Run a shell command in the background, and return its process's number."""
        return self._start(command, subprocess.DEVNULL).pid

    def _start(self, command: str, output: int) -> "subprocess.Popen[str]":
        here = re.sub(r"(?<![\w.])/(app|tmp)\b", rf"{self.root}/\1", command)
        here = here.replace("--port 8000", "--port 0")  # other tests may have this port of the machine
        process = subprocess.Popen(
            ["sh", "-c", here],
            env=self._variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def port(self) -> int | None:
        """Where its server listens, once it does."""
        sessions = {process.pid for process in self._processes}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) in sessions:
                    for connection in process.net_connections("tcp"):
                        if connection.status == psutil.CONN_LISTEN:
                            return int(connection.laddr.port)
        return None

    def proxy(self, required: Mapping[str, str], prefix: str = "", others: int | None = None) -> str:
        """Open the service's proxy to the server, and return its address.

        Args:
            required: The headers without which it leads to a login page.
            prefix: What the path of the server's requests begins with outside.
            others: The port of this machine that gets all other requests.
        """
        self.proxies.append(Proxy(self, required, prefix, others))
        return self.proxies[-1].url

    def end(self) -> None:
        """End everything that runs on it."""
        for proxy in self.proxies:
            proxy.close()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()


class Proxy:
    """Leads connections to a machine's server, if their first request has the headers, and adds none."""

    def __init__(self, machine: Machine, required: Mapping[str, str], prefix: str, others: int | None) -> None:
        self._machine = machine
        self._prefix = prefix.encode()
        self._others = others
        self._required = [f"{name}: {value}".lower() for name, value in required.items()]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = set[socket.socket]()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut everything."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.add(client)
                threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def _lead(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = client.recv(_CHUNK)
            lines = head.decode("latin-1").lower().split("\r\n")
            if any(each not in lines for each in self._required):
                client.sendall(_UNAUTHORIZED)
                return
            port, head = self._way(head)
            if port is None:
                client.sendall(_NOT_UP)
            else:
                self._relay(client, head, port)

    def _way(self, head: bytes) -> tuple[int | None, bytes]:
        method, _, rest = head.partition(b" ")
        if rest.startswith(self._prefix):
            line, _, others = rest.removeprefix(self._prefix).partition(b"\r\n")
            return self._machine.port(), b"".join((method, b" ", line, b"\r\n", others))
        return self._others, head

    def _relay(self, client: socket.socket, head: bytes, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as server:
            self._open.add(server)
            server.sendall(head)
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
