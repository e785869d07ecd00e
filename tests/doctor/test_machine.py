"""The machine itself."""

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv.doctor import machine
from openenv.doctor.finding import Status


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(machine, "_PORT", taken.getsockname()[1])
        found = machine.port()
        assert (found.status, "--port 0" in found.remedy) == (Status.UNSURE, True)
    assert machine.port().status is Status.READY


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("few_descriptors")
def test_few_descriptors_and_how_to_have_more() -> None:
    found = machine.descriptors()
    assert (found.status, found.detail) == (Status.UNSURE, "no more than 1,024 at once")
    assert found.remedy.startswith("ulimit -n ")


class TestJournal:
    def test_its_folder_can_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_JOURNAL", str(tmp_path / "journal"))
        assert machine.journal().status is Status.READY
        assert list(tmp_path.iterdir()) == []

    def test_there_is_no_such_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_JOURNAL", str(tmp_path / "not" / "journal"))
        found = machine.journal()
        assert (found.status, found.remedy) == (Status.MISSING, f"mkdir -p {tmp_path / 'not'}")

    def test_a_database_is_asked_later_and_its_password_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_JOURNAL", "postgresql://me:hidden-pass@127.0.0.1/journal")
        assert "hidden-pass" not in f"{machine.journal()}"


def test_memory_and_disk_say_how_much_is_free() -> None:
    assert "GiB of" in machine.memory().detail
    assert "free in" in machine.disk().detail
