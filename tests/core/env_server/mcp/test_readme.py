"""Where an environment's README is found."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv import Environment
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.environment_types import EnvironmentTypes

MODULE = """
from tests.support.environments.common import CounterEnvironment
class Found(CounterEnvironment): pass
"""


class Telling(CounterEnvironment):
    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="t", description="d", readme_content="# told")


class Failing(CounterEnvironment):
    def get_metadata(self) -> EnvironmentMetadata:
        raise RuntimeError("no")


async def read(source: Any) -> str | None:
    sessions = SessionManager(EnvironmentFactory(source), EnvironmentTypes(Add, Total, State), ServerConfig())
    return await About(sessions, "found").readme()


async def test_in_the_environment_s_metadata() -> None:
    assert await read(Telling) == "# told"


async def test_beside_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "found_env" / "server"
    folder.mkdir(parents=True)
    (folder / "found.py").write_text(MODULE)
    (tmp_path / "found_env" / "README.md").write_text("# found")
    assert await read(load(folder / "found.py")) is None
    (tmp_path / "found_env" / "openenv.yaml").write_text("name: found")
    assert await read(load(folder / "found.py")) == "# found"


async def test_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "R.md").write_text("# named")
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "R.md"))
    assert await read(CounterEnvironment) == "# named"
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "missing.md"))
    assert await read(CounterEnvironment) is None


async def test_there_is_none() -> None:
    assert await read(Failing) is None
    assert await read(type("Made", (CounterEnvironment,), {"__module__": "nowhere"})) is None
    assert await read(type("Typed", (CounterEnvironment,), {"__module__": "__main__"})) is None
    assert await read(CounterEnvironment()) is None


def load(path: Path) -> type[Environment[Any, Any, Any]]:
    spec = importlib.util.spec_from_file_location("found", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["found"] = module
    spec.loader.exec_module(module)
    found: type[Environment[Any, Any, Any]] = module.Found
    return found
