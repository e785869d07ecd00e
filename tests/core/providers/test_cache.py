"""Where things are kept."""

from pathlib import Path

import pytest

from openenv.core.providers.cache import cache_folder


@pytest.mark.parametrize("given", ["", "relative/cache"])
def test_the_cache_is_in_the_home_folder_unless_told(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert cache_folder("venvs") == tmp_path / ".cache" / "openenv" / "venvs"


def test_a_variable_moves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("spaces") == tmp_path / "openenv" / "spaces"
