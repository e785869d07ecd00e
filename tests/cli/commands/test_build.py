"""``openenv build``: what it takes, what it says, and how it ends."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, with_manifest_keys
from tests.support.services import docker_engine

# Answers /health as an environment's server does, if the file that it reads is there.
SERVER = """
import http.server
open("/words.txt").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(STATUS)
        self.end_headers()
http.server.HTTPServer(("", PORT), Handler).serve_forever()
"""


@pytest.fixture
def tag() -> Iterator[str]:
    """A name for an image, which is gone after the test, as its containers are."""
    docker_engine.require_engine()
    name = f"openenv-tests-cli-{uuid.uuid4().hex[:8]}"
    yield name
    left = docker_engine.containers("--filter", f"ancestor={name}")
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True)
    assert left == []


def folder_of_server(parent: Path, *lines: str, status: int = 200, port: int = 8000) -> Path:
    """Make an environment's folder whose image serves by a few lines of Python."""
    folder = scaffold(parent, "my_env")
    program = SERVER.replace("STATUS", str(status)).replace("PORT", str(port))
    (folder / "server" / "serve.py").write_text(program)
    (folder / "words.txt").write_text("lemon")
    lines = ("ARG BASE_IMAGE", "FROM $BASE_IMAGE", *lines, "COPY server/serve.py /", 'CMD ["python", "/serve.py"]')
    (folder / "server" / "Dockerfile").write_text("\n".join(lines))
    return folder


def test_it_builds_says_the_size_starts_it_and_writes_a_compose_file(openenv: Any, tmp_path: Path, tag: str) -> None:
    folder = folder_of_server(tmp_path, "COPY words.txt /", "ARG MORE")
    base = docker_engine.python_image()
    options = ["--tag", tag, "--base-image", base, "--build-arg", "MORE=a=b", "--no-cache", "--compose"]
    ended = openenv("build", folder, *options)
    assert ended.returncode == 0, ended.stderr
    built, pinned, started, wrote = ended.stdout.splitlines()
    assert built.startswith(f"Built {tag}: ")
    assert built.endswith(" MiB, 0 MiB of it on top of its base.")
    assert pinned.startswith("Pin it as sha256:")
    assert started.startswith("It starts: healthy after ")
    assert wrote.startswith(f"Wrote {folder / 'compose.yaml'}: ")
    assert f"Starting {tag}; it has 60 s to be healthy (--no-start leaves this out)." in ended.stderr


def test_the_port_is_the_manifest_s(openenv: Any, tmp_path: Path, tag: str) -> None:
    folder = with_manifest_keys(folder_of_server(tmp_path, "COPY words.txt /", port=7860), port=7860)  # type: ignore[arg-type]
    ended = openenv("build", folder, "--tag", tag, "--base-image", docker_engine.python_image())
    assert ended.returncode == 0, ended.stderr


def test_an_image_without_its_data_file_fails_with_its_log(openenv: Any, tmp_path: Path, tag: str) -> None:
    folder = folder_of_server(tmp_path)
    options = ["--tag", tag, "--base-image", docker_engine.python_image()]
    ended = openenv("build", folder, *options)
    assert ended.returncode == 1
    assert "its server does not start" in ended.stderr
    assert "No such file or directory: '/words.txt'" in ended.stderr
    left_out = openenv("build", folder, *options, "--no-start")
    assert (left_out.returncode, "It starts" in left_out.stdout) == (0, False), left_out.stderr


def test_a_server_that_is_not_healthy_in_time_fails_and_names_the_limit(openenv: Any, tmp_path: Path, tag: str) -> None:
    folder = folder_of_server(tmp_path, "COPY words.txt /", status=503)
    options = ["--tag", tag, "--base-image", docker_engine.python_image(), "--start-timeout", "2"]
    ended = openenv("build", folder, *options)
    assert ended.returncode == 1
    assert "was not ready within 2 s; the last try gave: " in ended.stderr


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
