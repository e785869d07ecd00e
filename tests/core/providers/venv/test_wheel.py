"""The OpenEnv that runs here, packed: a real wheel, of exactly this code."""

import base64
import csv
import hashlib
import zipfile
from pathlib import Path

import pytest

import openenv
from openenv.core.providers.venv.wheel import fingerprint, is_from_index, pack_openenv, provided_extras
from openenv.core.exceptions import ProviderError


def test_it_has_all_of_the_package_and_says_so(tmp_path: Path) -> None:
    wheel = pack_openenv(tmp_path)
    assert wheel.name == f"openenv_core-{openenv.__version__}-py3-none-any.whl"
    info = f"openenv_core-{openenv.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        rows = csv.reader(archive.read(f"{info}/RECORD").decode().splitlines())
        record = {name: (digest, size) for name, digest, size in rows}
        assert set(record) == set(names)
        assert record.pop(f"{info}/RECORD") == ("", "")
        for name, noted in record.items():
            content = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert noted == (f"sha256={digest}", str(len(content)))
        init = Path(openenv.__file__).read_bytes()
        assert archive.read("openenv/__init__.py") == init
        assert b"Name: openenv-core" in archive.read(f"{info}/METADATA")
        assert b"openenv.cli.__main__:main" in archive.read(f"{info}/entry_points.txt")
    assert "openenv_core/__init__.py" in names
    assert any(name.endswith("Dockerfile.tmpl") for name in names)
    assert not any("__pycache__" in name for name in names)


def test_the_same_code_is_the_same_wheel_and_fingerprint(tmp_path: Path) -> None:
    assert pack_openenv(tmp_path / "a").read_bytes() == pack_openenv(tmp_path / "b").read_bytes()
    assert fingerprint() == fingerprint()
    assert {"docker", "train"} <= provided_extras()


def test_a_checkout_is_from_no_index() -> None:
    assert not is_from_index()


def test_a_folder_that_was_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(ProviderError, match=r"was not installed; run pip install -e \."):
        pack_openenv(tmp_path)
