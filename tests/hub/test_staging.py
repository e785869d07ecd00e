"""The layout of a Space."""

from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files
from tests.support.public_folders import dice_env

from openenv.core.exceptions import ConfigurationError
from openenv.hub.staging import Look, missing_files, sizes_of, stage

LOOK = Look("My env")


def test_the_dockerfile_moves_to_the_top_and_the_folder_stays_as_it_was(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    before = sizes_of(folder)
    stage(folder, tmp_path / "staged", LOOK)
    files = {str(path) for path in sizes_of(tmp_path / "staged")}
    assert {"Dockerfile", "README.md", "openenv.yaml", "server/app.py"} <= files
    assert not any(path.startswith(("outputs", ".")) or path == "server/Dockerfile" for path in files)
    assert "ENV ENABLE_WEB_INTERFACE=true" in (tmp_path / "staged" / "Dockerfile").read_text()
    assert sizes_of(folder) == before


def test_staged_twice_it_is_the_same(tmp_path: Path) -> None:
    stage(dice_env(tmp_path), tmp_path / "once", LOOK)
    stage(tmp_path / "once", tmp_path / "twice", LOOK)
    once = {path: (tmp_path / "once" / path).read_bytes() for path in sizes_of(tmp_path / "once")}
    assert once == {path: (tmp_path / "twice" / path).read_bytes() for path in sizes_of(tmp_path / "twice")}


def test_a_dockerfile_on_top_wins(tmp_path: Path) -> None:
    folder = write_files(dice_env(tmp_path), {"Dockerfile": "FROM top\nCMD x\n"})
    stage(folder, tmp_path / "staged", Look("Dice", base_image="mine"))
    assert (tmp_path / "staged" / "Dockerfile").read_text() == "FROM mine\nENV ENABLE_WEB_INTERFACE=true\nCMD x\n"
    assert (tmp_path / "staged" / "server" / "Dockerfile").read_text().startswith("FROM python")


def test_what_is_missing(tmp_path: Path) -> None:
    folder = dice_env(tmp_path)
    assert missing_files(folder) == []
    for path in ("client.py", "server/app.py", "server/Dockerfile", "README.md"):
        (folder / path).unlink()
    assert missing_files(folder) == ["README.md", "client.py", "server/app.py", "server/Dockerfile"]
    assert missing_files(folder, with_client=False) == ["README.md", "server/app.py", "server/Dockerfile"]
    (folder / "Dockerfile").write_text("FROM x")
    assert missing_files(folder) == ["README.md", "client.py"]


def test_what_a_space_needs_is_not_left_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"README\.md.*left out"):
        stage(dice_env(tmp_path), tmp_path / "staged", LOOK, ["*.md"])


@pytest.mark.parametrize("name", ["README.md", "server/Dockerfile"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe\x00", "is not UTF-8"), (b"x" * 1_000_001, "at most 1000000 bytes")],
    ids=["no text", "long"],
)
def test_a_text_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    folder = dice_env(tmp_path)
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"(README\.md|Dockerfile).*{reason}"):
        stage(folder, tmp_path / "staged", LOOK)
