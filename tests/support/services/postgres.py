"""A PostgreSQL of the tests' own: a cluster in a temporary folder, on a socket in it and on no port."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import psycopg
from tests.support.needs import find_program
from tests.support.servers import eventually

# Its owner where the tests run as root, as whom it refuses to run.
_USER = "postgres"
_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "fsync": "off",  # the machine does not go down, only processes do
    "log_min_messages": "fatal",
}
_numbers = count(1)


class Postgres:
    """A cluster that runs.

    Args:
        programs: Where PostgreSQL is installed.
        folder: Where the cluster is made.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self._data = folder / "data"

    @classmethod
    def make(cls, programs: Path, folder: Path) -> Self:
        """Make a cluster and start it."""
        cluster = cls(programs, folder)
        if os.geteuid() == 0:
            shutil.chown(folder, _USER)
        cluster._run("initdb", "-D", cluster._data, "-U", "openenv", "-A", "trust", "-N", "--no-instructions")
        with (cluster._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in _SETTINGS.items())
        cluster.start()
        return cluster

    def address(self, database: str = "postgres", **options: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://openenv@/{database}?host={self.folder}{more}"

    def new_database(self) -> str:
        """Make an empty database, and return its address."""
        name = f"journal_{next(_numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def connect(self, address: str | None = None) -> "psycopg.Connection[Any]":
        return psycopg.connect(address or self.address(), autocommit=True)

    def start(self) -> None:
        options = f"-k {self.folder}"
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-o", options, "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """End it in order, as for a restart."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """End it as ``kill -9`` of all its processes does."""
        processes = self.processes()
        for process in processes:
            os.kill(process, signal.SIGKILL)
        eventually(lambda: not any(map(_runs, processes)), "the end of PostgreSQL")
        for lock in (self._data / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            lock.unlink()  # its processes may stay as zombies, where nobody waits for them

    def hang(self) -> None:
        """Have all of its processes do nothing any more."""
        for process in self.processes():
            os.kill(process, signal.SIGSTOP)

    def go_on(self) -> None:
        """Have them work again."""
        for process in self.processes():
            os.kill(process, signal.SIGCONT)

    def processes(self) -> list[int]:
        """The server's processes, the one first that the others are children of."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children")
        return [first, *(int(child) for child in children.read_text().split())] if children.exists() else []

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        user = _USER if os.geteuid() == 0 else None
        done = subprocess.run(
            command, user=user, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        log = self.folder / "log"
        told = log.read_text() if done.returncode and log.exists() else ""
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}{told}"


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL for as long as it is wanted, or skip the test that wants it where there is none."""
    programs = find_program("postgres").resolve().parent
    with TemporaryDirectory(prefix="openenv-postgres-") as folder:
        cluster = Postgres.make(programs, Path(folder))
        try:
            yield cluster
        finally:
            cluster.go_on()
            cluster.stop("immediate")
