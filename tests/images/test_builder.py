"""Images that Docker really builds, and what is in them."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, with_manifest_keys, write_files
from tests.support.public_folders import dice_env
from tests.support.services import docker_engine
from tests.support.snippets import blocks_of

from openenv import GenericEnvClient
from openenv.core.containers.runtime import LocalDockerProvider
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.images.builder import Build, BuiltImage, build_image


@pytest.fixture
def tag() -> Iterator[str]:
    """A name for an image, which is gone after the test."""
    docker_engine.require_engine()
    name = f"openenv-tests-built-{uuid.uuid4().hex[:8]}"
    yield name
    subprocess.run(["docker", "rmi", name], capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new environment, with the list of dependencies that is built already."""
    made = scaffold(tmp_path, "my_env")
    docker_engine.image_of("echo_env")
    (made / "server" / "requirements.txt").write_text(
        (docker_engine.ROOT / "envs" / "echo_env" / "server" / "requirements.txt").read_text()
    )
    return made


def offline(folder: Path, tag: str, **options: Any) -> BuiltImage:
    """Build on the tests' own image, from wheels."""
    base, wheels = docker_engine.python_image(), docker_engine.wheels()
    return build_image(Build(folder=folder, tag=tag, base_image=base, wheels=wheels, **options))


def inspected(tag: str) -> dict[str, Any]:
    said = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)[0]
    return found


def plays(image: str, **options: Any) -> float | None:
    """Play a step in a container of an image, and return its reward."""
    with GenericEnvClient(provider=LocalDockerProvider(image, **options)).sync() as client:
        client.reset()
        return client.step({"message": "hello"}).reward


def test_a_scaffold_becomes_a_small_image_that_can_be_played(folder: Path, tag: str) -> None:
    image = offline(folder, tag)
    details = inspected(tag)
    assert (image.tag, image.id, image.size) == (tag, details["Id"], details["Size"])
    assert image.base_size is not None
    assert image.size - image.base_size < 120 * 2**20
    assert details["Config"]["User"] == "1000"
    assert details["Config"]["Labels"]["org.opencontainers.image.title"] == "my_env"
    assert image.labels.writable == ("/tmp", "/home/openenv")
    assert plays(tag) == 0.5
    assert plays(tag, env_vars={"PORT": "8123"}) == 0.5


def test_a_change_of_the_code_leaves_the_layers_of_what_it_depends_on(folder: Path, tag: str) -> None:
    before = inspected(offline(folder, tag).tag)["RootFS"]["Layers"]
    model = folder / "models.py"
    model.write_text(model.read_text() + "\n# changed\n")
    after = inspected(offline(folder, tag).tag)["RootFS"]["Layers"]
    same = [one == other for one, other in zip(before, after, strict=True)]
    assert same == sorted(same, reverse=True)
    assert same.count(False) == 2  # the package, and the folder
    subprocess.run(["docker", "image", "prune", "--force", "--filter", f"label={tag}"], capture_output=True)


def test_a_lock_is_written_and_kept_to(folder: Path, tag: str) -> None:
    lock = folder / "requirements.lock"
    lock.write_text("pydantic==0.0.1\n")
    with pytest.raises(ProviderError, match="could not be built"):
        offline(folder, tag)
    offline(folder, tag, lock=True)
    lines = lock.read_text().splitlines()
    assert lines[0].startswith("# Written by `openenv build --lock`")
    assert [line for line in lines if line.startswith("pydantic==")] != ["pydantic==0.0.1"]
    assert all(line.count("==") == 1 for line in lines[1:])
    assert not [line for line in lines if "my_env" in line or "my-env" in line]


def test_a_folder_for_the_public_package_is_built_as_it_is(tmp_path: Path, tag: str) -> None:
    folder = dice_env(tmp_path)
    docker_engine.image_of("echo_env")
    with docker_engine.python_slim():
        image = build_image(Build(folder=folder, tag=tag))
    assert image.base_size is None
    assert image.labels.writable is None
    with GenericEnvClient(provider=LocalDockerProvider(tag)).sync() as client:
        client.reset(seed=1)
        assert client.step({"hold": True}).done


def test_the_tutorial_s_folder_is_built_from_above_its_server(tmp_path: Path, tag: str) -> None:
    blocks = blocks_of(docker_engine.ROOT / "tests" / "seeds" / "code_feedback.md")
    (dockerfile,) = [block.text for block in blocks if block.language == "dockerfile"]
    write_files(
        tmp_path, {block.path: block.text for block in blocks if block.path} | {"server/Dockerfile": dockerfile}
    )
    docker_engine.image_of("echo_env")
    with docker_engine.python_slim():
        command = ["docker", "build", "-t", tag, "-f", "server/Dockerfile", "."]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    with GenericEnvClient(provider=LocalDockerProvider(tag)).sync() as client:
        client.reset()
        assert client.step({"code": "def f(): pass", "function_name": "f"}).reward == 1.0


def test_the_manifest_may_ask_for_no_network(folder: Path, tag: str) -> None:
    docker_engine.require_engine()
    with_manifest_keys(folder, validation={"network": {"mode": "no-network"}})  # type: ignore[arg-type]
    (folder / "server" / "Dockerfile").write_text(f"FROM {docker_engine.python_image()}\n")
    assert build_image(Build(folder=folder, tag=tag)).labels.network == "none"


def test_arguments_of_the_public_dockerfiles_are_given_where_they_are_asked_for(folder: Path, tag: str) -> None:
    (folder / "server" / "Dockerfile").write_text(
        f"FROM {docker_engine.python_image()}\nARG BUILD_MODE\nARG ENV_NAME\nARG OWN\n"
        "RUN test $BUILD_MODE-$ENV_NAME-$OWN = standalone-my_env-mine && test -f /context/openenv.yaml || true\n"
        "COPY openenv.yaml /context/\n"
    )
    build_image(Build(folder=folder, tag=tag, arguments={"OWN": "mine"}))
    with pytest.raises(ConfigurationError, match="takes no BASE_IMAGE"):
        build_image(Build(folder=folder, tag=tag, base_image="x"))
    with pytest.raises(ConfigurationError, match=r"does not look for requirements\.lock"):
        build_image(Build(folder=folder, tag=tag, lock=True))


def test_context_and_dockerfile_may_be_elsewhere(folder: Path, tmp_path: Path, tag: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "data.txt").write_text("x")
    dockerfile = tmp_path / "Special"
    dockerfile.write_text(f"FROM {docker_engine.python_image()}\nCOPY data.txt /\n")
    assert build_image(Build(folder=folder, tag=tag, context=other, dockerfile=dockerfile)).tag == tag


def test_without_docker_it_says_what_brings_it(
    folder: Path, tag: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(ProviderError, match=r"(?s)docker version.*none\.sock.*sudo systemctl start docker"):
        build_image(Build(folder=folder, tag=tag))


def test_code_environments_keep_their_sandbox_in_the_container() -> None:
    image = docker_engine.image_of("coding_env")
    with GenericEnvClient(provider=LocalDockerProvider(image)).sync() as client:
        client.reset()
        observation = client.step({"code": "print(sum(range(5)))"}).observation
        assert observation["stdout"].startswith("10")
        refused = client.step({"code": "open('/app/leak', 'w')"}).observation
        assert refused["exit_code"] == 1
