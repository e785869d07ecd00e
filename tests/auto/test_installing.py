"""A Space's package is installed from its repository: only if it is trusted, and beside the OpenEnv that runs here."""

import io
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold
from tests.support.services.git_repositories import commit_all
from tests.support.wheels import make_wheel

import openenv
from openenv.auto.installing import install_space
from openenv.core.exceptions import ConfigurationError, ProviderError

PLAY = """
import sys, openenv
from openenv import AutoAction, AutoEnv
home = openenv.__file__
client = AutoEnv.from_env("acme/tally-env", trust_remote_code=True, wait_timeout=100)
action = AutoAction.from_hub("acme/tally-env")
with client.sync() as env:
    env.reset()
    print(type(client).__name__, env.step(action(message="hi")).reward, openenv.__file__ == home)
"""


@pytest.fixture
def space(tmp_path: Path, offline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository of a Space on a Hub of the test's own; the Space does not run."""
    for name in ("openenv", "openenv-core"):  # they must not replace what runs here, whoever asks for them
        make_wheel(offline, name, "99.0", modules={"openenv/__init__.py": "raise SystemExit('replaced')\n"})
    make_wheel(offline, "dice-lore", requires=["openenv>=5"])
    folder = scaffold(tmp_path / "scaffolds", "tally_env")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("dependencies = [", "dependencies = ['dice-lore', 'openenv', ", 1))
    repository = tmp_path / "hub" / "spaces" / "acme" / "tally-env"
    repository.parent.mkdir(parents=True)
    folder.rename(repository)
    commit_all(repository)
    monkeypatch.setenv("HF_ENDPOINT", (tmp_path / "hub").as_uri())
    monkeypatch.setenv("OPENENV_SPACE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("OPENENV_TRUST_REMOTE_CODE", raising=False)
    return repository


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """A Python environment that has all of this one, and that packages may be added to."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    site = Path(
        subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
    )
    own = Path(openenv.__file__).parents[1]
    (site / "rest.pth").write_text(f"{own}\n{sysconfig.get_path('purelib')}\n")
    # What uv goes by: it looks at nothing but this folder.
    info = site / f"openenv_core-{openenv.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text((distribution("openenv-core").read_text("METADATA") or "").partition("Requires-")[0])
    (info / "RECORD").write_text("")
    return python


def test_a_trusted_space_s_package_is_installed_and_played(space: Path, other_python: Path) -> None:
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([str(other_python), "-c", PLAY], capture_output=True, text=True, env=variables, timeout=280)
    assert done.stdout == "TallyEnv 0.2 True\n", done.stderr
    assert "does not answer at http://127.0.0.1:9" in done.stderr
    replaced = subprocess.run(
        [str(other_python), "-P", "-c", "import dice_lore, openenv"], capture_output=True, text=True
    )
    assert replaced.returncode == 0, replaced.stderr


def test_pip_refuses_what_would_replace_openenv(
    space: Path, other_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.auto.installing.find_uv", lambda: None)
    monkeypatch.setattr("sys.executable", str(other_python))
    with pytest.raises(ProviderError, match="Installing the package of acme/tally-env failed") as error:
        install_space("acme/tally-env", trusted=True)
    assert "openenv<0" in (error.value.logs or "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.level("process")
@pytest.mark.parametrize(
    ("variable", "typed", "trusted"),
    [
        ("1", None, True),
        ("Yes", None, True),
        ("0", None, False),
        ("", None, False),
        ("", "y\n", True),
        ("", "\n", False),
        ("", "no\n", False),
        ("", "", False),
    ],
)
def test_trust_is_given_by_a_variable_or_by_hand(
    variable: str, typed: str | None, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", variable)
    monkeypatch.setenv("HF_ENDPOINT", "file:///nowhere")
    monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
    asked = Terminal()
    monkeypatch.setattr("sys.stderr", asked)
    # What is trusted is tried, and is not there.
    with pytest.raises(ProviderError if trusted else ConfigurationError) as error:
        install_space("acme/tally-env")
    assert "acme/tally-env" in str(error.value)
    assert ("Do you trust it?" in asked.getvalue()) is (typed is not None)
