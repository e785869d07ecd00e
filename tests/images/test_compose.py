"""The Compose file, as Compose itself reads it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from tests.support.environment_folders import scaffold
from tests.support.needs import require

from openenv.core.providers.docker.labels import ImageLabels
from openenv.images.builder import BuiltImage
from openenv.images.compose import write_compose_file


def built(**labels: Any) -> BuiltImage:
    return BuiltImage("my-image:1", f"sha256:{'0' * 64}", 1, None, ImageLabels(**labels))


def written(folder: Path, **labels: Any) -> Path:
    file = write_compose_file(folder, built(**labels))
    assert file is not None
    return file


def as_compose_reads(file: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    require("docker-compose")
    environment = {**os.environ, **variables}
    return subprocess.run(
        ["docker-compose", "--file", str(file), "config"], capture_output=True, text=True, env=environment
    )


def test_it_confines_as_the_provider_does(tmp_path: Path) -> None:
    file = written(scaffold(tmp_path, "my_env"), writable=("/tmp", "/home/openenv"))
    assert file.name == "compose.yaml"
    read = as_compose_reads(file, OPENENV_TOKEN="secret")
    assert read.returncode == 0, read.stderr
    (service,) = yaml.safe_load(read.stdout)["services"].values()
    assert service["image"] == "my-image:1"
    assert service["environment"] == {"OPENENV_TOKEN": "secret", "PORT": "8000"}
    assert service["ports"] == ["127.0.0.1:8000:8000/tcp"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] == 1024
    assert service["tmpfs"] == [
        f"{folder}:rw,exec,nosuid,nodev,mode=1777,size=256m" for folder in ("/tmp", "/home/openenv")
    ]


def test_it_asks_for_a_token(tmp_path: Path) -> None:
    file = written(scaffold(tmp_path, "my_env"))
    read = as_compose_reads(file, OPENENV_TOKEN="")
    assert read.returncode != 0
    assert "a token, which clients must send" in read.stderr


def test_it_goes_by_the_image_s_labels(tmp_path: Path) -> None:
    file = written(scaffold(tmp_path, "my_env"), nested_sandbox=True)
    (service,) = yaml.safe_load(file.read_text())["services"].values()
    assert "read_only" not in service
    assert "seccomp:unconfined" in service["security_opt"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "compose.yaml").write_text("mine")
    assert write_compose_file(folder, built()) is None
    assert (folder / "compose.yaml").read_text() == "mine"
