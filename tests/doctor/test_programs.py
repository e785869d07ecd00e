"""Programs beside Python, with stand-ins on the path that say what the real ones say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openenv.doctor import programs
from openenv.doctor.finding import Status

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a program on a path that has nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return put


class TestDocker:
    def test_its_engine_answers(self, install: Install) -> None:
        install("docker", "echo 28.5.1")
        found = programs.docker()
        assert (found.status, found.detail, found.remedy) == (Status.READY, "engine 28.5.1", "")

    @pytest.mark.parametrize(
        ("said", "remedy"),
        [
            ("permission denied while trying to connect to the Docker daemon socket", "usermod -aG docker $USER"),
            ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "systemctl start docker"),
        ],
    )
    def test_it_can_t_be_used(self, install: Install, said: str, remedy: str) -> None:
        install("docker", f"echo '{said}' >&2; exit 1")
        found = programs.docker()
        assert (found.status, found.detail) == (Status.MISSING, said)
        assert remedy in found.remedy

    def test_it_is_not_installed(self, install: Install) -> None:
        found = programs.docker()
        assert (found.status, found.remedy) == (Status.MISSING, "sudo apt-get install docker.io")

    def test_it_hangs(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "TIMEOUT_S", 0.1)
        install("docker", "exec /bin/sleep 60")
        assert programs.docker().status is Status.UNSURE


class TestUv:
    def test_it_hangs(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "TIMEOUT_S", 0.1)
        install("uv", "exec /bin/sleep 60")
        monkeypatch.setattr(programs, "find_uv", lambda: "uv")
        assert (programs.uv().status, programs.uv().detail) == (Status.UNSURE, "it did not answer within 0.1 s")


class TestGpu:
    def test_there_is_one(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "version", lambda _name: "2.9.0+cu128")
        install("nvidia-smi", "echo 'NVIDIA H100, 81559 MiB'")
        found = programs.gpu()
        assert (found.status, found.detail) == (Status.READY, "NVIDIA H100, 81559 MiB; PyTorch 2.9.0+cu128")

    def test_pytorch_was_not_built_for_it(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "version", lambda _name: "2.9.0+cpu")
        install("nvidia-smi", "echo 'NVIDIA H100, 81559 MiB'")
        found = programs.gpu()
        assert found.status is Status.UNSURE
        assert "for CPUs only" in found.detail
        assert found.remedy == "pip install --force-reinstall torch"

    def test_its_driver_fails(self, install: Install) -> None:
        install("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
        found = programs.gpu()
        assert found.status is Status.MISSING
        assert "version mismatch" in found.detail

    def test_there_is_none(self, install: Install) -> None:
        assert programs.gpu().status is Status.MISSING
