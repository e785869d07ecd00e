"""Real images of a new environment that reads a data file when it is imported: with the file, and without."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files
from tests.support.services import docker_engine

from openenv.auto.manifest import load_manifest
from openenv.core.exceptions import ProviderError
from openenv.images.builder import Build, build_image
from openenv.images.health import check_health

READS_WORDS = (
    "\n\nfrom pathlib import Path\n\n"
    'WORDS = (Path(__file__).parent / "words" / "all.txt").read_text().split()\n'
    'TABLE = Path(__file__).parents[1].joinpath("tables", "sums.csv").read_text()\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new environment with two data files, and the list of dependencies that is built already."""
    made = scaffold(tmp_path, "my_env")
    environment = made / "server" / "my_env_environment.py"
    environment.write_text(environment.read_text() + READS_WORDS)
    docker_engine.image_of("echo_env")
    requirements = docker_engine.ROOT / "envs" / "echo_env" / "server" / "requirements.txt"
    files = {
        "server/requirements.txt": requirements.read_text(),
        "server/words/all.txt": "lemon\n",
        "tables/sums.csv": "1,2\n",
    }
    return write_files(made, files)


@pytest.fixture
def tag() -> Iterator[str]:
    """A name for an image, which is gone after the test."""
    name = f"openenv-tests-health-{uuid.uuid4().hex[:8]}"
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True)


def test_data_files_are_in_the_image_by_default(folder: Path, tag: str) -> None:
    offline = {"base_image": docker_engine.python_image(), "wheels": docker_engine.wheels()}
    image = build_image(Build(folder=folder, tag=tag, **offline))  # type: ignore[arg-type]
    assert check_health(image, load_manifest(folder)) > 0
    (folder / ".dockerignore").write_text("server/words\n")
    image = build_image(Build(folder=folder, tag=tag, **offline))  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=r"(?s)does not start.*No such file.*server/words/all\.txt"):
        check_health(image, load_manifest(folder))
    assert docker_engine.containers("--filter", f"ancestor={tag}") == []
