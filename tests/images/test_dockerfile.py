"""What is read off a Dockerfile."""

from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold

from openenv.core.exceptions import ConfigurationError
from openenv.images.dockerfile import Dockerfile


def dockerfile(folder: Path, text: str) -> Dockerfile:
    path = folder / "Dockerfile"
    path.write_text(text)
    return Dockerfile(path)


def test_the_one_beside_the_server_comes_first(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "Dockerfile").write_text("FROM x\n")
    assert Dockerfile.of_folder(folder).path == folder / "server" / "Dockerfile"
    (folder / "server" / "Dockerfile").unlink()
    assert Dockerfile.of_folder(folder).text == "FROM x\n"
    (folder / "Dockerfile").unlink()
    with pytest.raises(ConfigurationError, match="neither server/Dockerfile nor Dockerfile"):
        Dockerfile.of_folder(folder)


def test_arguments_are_what_arg_declares(tmp_path: Path) -> None:
    read = dockerfile(tmp_path, "ARG BASE_IMAGE=python\nfrom x\n  arg OTHER\n# ARG NOT\nRUN echo ARG NEITHER\n")
    assert read.arguments == {"BASE_IMAGE", "OTHER"}
    read.check_takes("OTHER")
    with pytest.raises(ConfigurationError, match=r"takes no NOT\. Begin it with .*ARG NOT="):
        read.check_takes("NOT")


@pytest.mark.parametrize(
    ("line", "looked_for"),
    [
        ("COPY wheels /x", True),
        ("COPY a wheel[s] /x", True),
        ("COPY wheel /x", False),
        ("COPY wheelhouse /x", False),
        ("# wheels", False),
    ],
)
def test_a_file_may_be_looked_for_by_a_pattern(tmp_path: Path, line: str, looked_for: bool) -> None:
    assert dockerfile(tmp_path, f"FROM x\n{line}\n").mentions("wheels") is looked_for


def test_the_scaffold_s_takes_everything(tmp_path: Path) -> None:
    read = Dockerfile.of_folder(scaffold(tmp_path, "my_env"))
    assert read.arguments == {"BASE_IMAGE", "PIP_NO_INDEX"}
    assert read.mentions("wheels")
    assert read.mentions("requirements.lock")


@pytest.mark.parametrize("text", ["\n" * 900_000, " " * 900_000, "ARG \n" * 180_000], ids=["lines", "spaces", "ARG"])
def test_a_file_of_blanks_takes_no_time_beyond_its_length(tmp_path: Path, text: str) -> None:
    assert dockerfile(tmp_path, f"{text}\n  arg NAME=1\n").arguments == {"NAME"}
