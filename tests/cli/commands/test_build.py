"""``openenv build``: what it takes, what it says, and how it ends."""

import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold
from tests.support.services import docker_engine


def test_it_builds_says_the_size_and_writes_a_compose_file(openenv: Any, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "server" / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM $BASE_IMAGE\nCOPY README.md /\nARG MORE\n")
    base, tag = docker_engine.python_image(), f"openenv-tests-cli-{uuid.uuid4().hex[:8]}"
    options = ["--tag", tag, "--base-image", base, "--build-arg", "MORE=a=b", "--no-cache", "--compose"]
    try:
        ended = openenv("build", folder, *options)
        assert ended.returncode == 0, ended.stderr
        built, pinned, wrote = ended.stdout.splitlines()
        assert built.startswith(f"Built {tag}: ")
        assert built.endswith(" MiB, 0 MiB of it on top of its base.")
        assert pinned.startswith("Pin it as sha256:")
        assert wrote.startswith(f"Wrote {folder / 'compose.yaml'}: ")
    finally:
        subprocess.run(["docker", "rmi", tag], capture_output=True)


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["nowhere"], 1, "openenv.yaml"),
        (["my_env", "--build-arg", "novalue"], 2, "--build-arg takes NAME=VALUE"),
        (["my_env", "--context", "nowhere"], 2, "nowhere"),
        (["without", "--tag", "x"], 1, "neither server/Dockerfile nor Dockerfile"),
    ],
)
def test_what_can_t_be_built_is_refused(
    openenv_here: Any, tmp_path: Path, options: list[str], status: int, said: str
) -> None:
    scaffold(tmp_path, "my_env")
    (scaffold(tmp_path, "without") / "server" / "Dockerfile").unlink()
    ended = openenv_here("build", *options)
    assert ended.returncode == status
    assert said in ended.stderr
