"""What a build gets to see of a folder."""

from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.core.exceptions import ConfigurationError
from openenv.images.context import build_context
from openenv.images.dockerfile import Dockerfile


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_it_is_the_folder_with_our_wheel_and_without_what_is_nobody_s_business(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    own = files_of(folder)
    write_files(
        folder,
        {
            ".git/config": "x",
            ".env": "KEY=x",
            ".venv/bin/python": "x",
            "__pycache__/a.pyc": "x",
            "requirements.lock": "x",
        },
    )
    before = files_of(folder)
    with build_context(folder, Dockerfile.of_folder(folder)) as context:
        added = files_of(context) - own
        assert own <= files_of(context)
        assert {name for name in added if not name.startswith("wheels/openenv_core-")} == {"requirements.lock"}
        assert len(added) == 2
    with build_context(folder, Dockerfile.of_folder(folder), without_lock=True) as context:
        assert "requirements.lock" not in files_of(context)
    assert not context.exists()
    assert files_of(folder) == before


def test_wheels_are_added_where_the_dockerfile_looks_for_them(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    wheels = write_files(tmp_path / "found", {"a-1-py3-none-any.whl": "x", "notes.txt": "x"})
    with build_context(folder, Dockerfile.of_folder(folder), wheels=wheels) as context:
        names = {name for name in files_of(context) if name.startswith("wheels/")}
        assert "wheels/a-1-py3-none-any.whl" in names
        assert len(names) == 2
    (folder / "server" / "Dockerfile").write_text("FROM x\n")
    plain = Dockerfile.of_folder(folder)
    with build_context(folder, plain) as context:
        assert not (context / "wheels").exists()
    with (
        pytest.raises(ConfigurationError, match="does not look for wheels/"),
        build_context(folder, plain, wheels=wheels),
    ):
        pass
