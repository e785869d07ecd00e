"""The Dockerfiles of the environments are those that the template makes."""

import runpy
from pathlib import Path

import pytest

ENVIRONMENTS = Path(__file__).parents[1]
MAKER = runpy.run_path(str(ENVIRONMENTS / "dockerfiles.py"))


@pytest.mark.parametrize("environment", MAKER["environments"]())
def test_a_dockerfile_is_the_one_of_the_template(environment: str) -> None:
    written = (ENVIRONMENTS / environment / "server" / "Dockerfile").read_text()
    assert written == MAKER["dockerfile"](environment), "run: python envs/dockerfiles.py"


def test_each_difference_is_one_of_an_environment() -> None:
    assert MAKER["IMAGES"].keys() <= set(MAKER["environments"]())
