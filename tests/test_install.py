"""``make`` installs with uv what pip would install, and with pip where uv can't do it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.install import pip_settings, untranslatable, uv_options, uv_variables

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "nothing-much"
version = "1"
"""
# Builds a wheel with nothing but the standard library, so that no package has to be fetched for it.
BACKEND = """
import zipfile
def build_wheel(folder, settings=None, metadata=None):
    info = "nothing_much-1.dist-info"
    name = "nothing_much-1-py3-none-any.whl"
    files = {
        "nothing_much.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: nothing-much\\nVersion: 1\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: backend\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "".join(f"{path},,\\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)
    return name
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this machine's settings away."""
    for name in os.environ:
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package's file, in a folder of its own."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(PACKAGE)
    (source / "backend.py").write_text(BACKEND)
    build = "import backend, sys; print(backend.build_wheel(sys.argv[1]))"
    name = subprocess.run(
        [sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True, text=True
    ).stdout.strip()
    return tmp_path / name


def install(folder: Path, *arguments: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Install into a folder."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.install", "--target", str(folder), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_settings_of_files_and_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nfind-links = /a\nquiet = 1\n[install]\nno-deps = yes\n[download]\nno-binary = :all:\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/b /c")
    found = {name: value for name, value in pip_settings().items() if name in ("find-links", "quiet", "no-deps")}
    assert found == {"find-links": "/b /c", "quiet": "0", "no-deps": "yes"}
    assert "no-binary" not in pip_settings()


def test_each_value_of_a_setting_is_an_option() -> None:
    settings = {"find-links": "/b /c", "constraint": "/d", "progress-bar": "off", "cert": "/e", "timeout": "7"}
    assert untranslatable(settings) == []
    best = ["--index-strategy", "unsafe-best-match"]
    assert uv_options(settings) == [*best, "--constraint", "/d", "--find-links", "/b", "--find-links", "/c"]
    assert uv_variables(settings) == {"SSL_CERT_FILE": "/e", "UV_HTTP_TIMEOUT": "7"}


def test_uv_finds_what_pip_is_set_to_find(tmp_path: Path, wheel: Path) -> None:
    ended = install(tmp_path / "target", "nothing-much", PIP_FIND_LINKS=str(wheel.parent), UV_NO_INDEX="1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "target" / "nothing_much.py").exists()
    assert (tmp_path / "target" / "nothing_much-1.dist-info" / "INSTALLER").read_text() == "uv"


def test_pip_installs_by_settings_that_uv_lacks(tmp_path: Path, wheel: Path) -> None:
    variables = {"PIP_FIND_LINKS": str(wheel.parent), "PIP_NO_INDEX": "1"}
    assert untranslatable({"no-index": "1", "index-url": "x"}) == ["no-index"]
    ended = install(tmp_path / "target", "nothing-much", **variables)
    assert ended.returncode == 0
    assert ended.stderr.startswith("uv has no counterpart for pip's setting no-index; pip installs instead")
    assert (tmp_path / "target" / "nothing_much-1.dist-info" / "INSTALLER").read_text().strip() == "pip"


def test_pip_tries_what_uv_could_not_do(tmp_path: Path, wheel: Path) -> None:
    ended = install(tmp_path / "target", wheel, UV_CACHE_DIR=os.devnull)
    assert ended.returncode == 0
    assert "uv ended with 2; pip installs instead" in ended.stderr
    assert (tmp_path / "target" / "nothing_much.py").exists()


def test_what_neither_can_install_fails(tmp_path: Path) -> None:
    ended = install(tmp_path / "target", tmp_path / "nowhere")
    assert ended.returncode != 0
    assert "pip installs instead" in ended.stderr
