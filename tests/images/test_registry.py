"""Publishing images, with a stand-in for Docker's command."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ProviderError
from openenv.images.registry import image_name, push_image


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    command = tmp_path / "docker"
    command.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\ncase "$2" in bad*) exit 3;; esac\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "said"


@pytest.mark.parametrize("registry", ["ghcr.io/me", "ghcr.io/me/", "https://ghcr.io/me"])
def test_names(registry: str) -> None:
    assert image_name(registry, "My_env") == "ghcr.io/me/my-env:latest"


@pytest.mark.level("process")
def test_docker_publishes(docker: Path) -> None:
    push_image("good/x:latest")
    assert docker.read_text() == "push good/x:latest\n"


@pytest.mark.level("process")
def test_docker_fails(docker: Path) -> None:
    with pytest.raises(ProviderError, match=r"bad/x could not be published.*docker login"):
        push_image("bad/x")
