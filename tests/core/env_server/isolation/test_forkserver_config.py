"""What another process can import, and what is said of the rest."""

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.core.env_server.isolation.conftest import ServeIsolated, failure
from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import Isolated, make_isolated
from tests.support.environments.threaded import ThreadedModule

from openenv.auto.importing import import_from_folder
from openenv.core.env_server.app import HTTPEnvServer, create_fastapi_app
from openenv.core.exceptions import ConfigurationError

pytestmark = pytest.mark.timeout(180)

LOCK: Any = threading.Lock()


class TestRefusals:
    """They come when the server is built, before anything is started."""

    @pytest.mark.parametrize(
        ("environment", "said"),
        [
            (
                lambda: Isolated("here"),
                r'^isolation="process" needs <lambda> and .*TestRefusals\.<lambda>.* isolation="none"',
            ),
            (
                partial(Isolated, LOCK),
                "needs Isolated and its actions' class Do .*cannot pickle .*lock.*functools.partial",
            ),
            (Isolated(), r"Isolated was given as one instance .* give its class"),
        ],
        ids=["lambda", "lock", "instance"],
    )
    def test_what_can_t_be_imported(self, environment: Any, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            create_fastapi_app(environment, Do, Shown, isolation="process")

    def test_a_local_class(self) -> None:
        class Local(Isolated):
            pass

        with pytest.raises(ConfigurationError, match=r"needs Local and .*<locals>\.Local"):
            create_fastapi_app(Local, Do, Shown, isolation="process")

    def test_a_local_class_of_actions(self) -> None:
        class LocalDo(Do):
            pass

        with pytest.raises(ConfigurationError, match=r"actions\' class \S*LocalDo .*<locals>\.LocalDo"):
            create_fastapi_app(Isolated, LocalDo, Shown, isolation="process")

    def test_what_was_typed_into_an_interpreter(self) -> None:
        program = (
            "from tests.support.environments.isolated import *\n"
            "from openenv import create_app\n"
            "class Typed(Isolated): pass\n"
            "create_app(Typed, Do, Shown, isolation='process')\n"
        )
        ended = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60)
        assert "ConfigurationError" in ended.stderr
        assert "at the top level of a module, in a file" in ended.stderr


@pytest.mark.parametrize("environment", [partial(Isolated, "given"), partial(partial(Isolated), note="given")])
def test_partials_bring_their_arguments(serve_isolated: ServeIsolated, environment: Any) -> None:
    with serve_isolated(environment).wire() as wire:
        assert wire.reset()["data"]["observation"]["value"]["note"] == "given"


def test_a_function_that_says_nothing_about_its_class(serve_isolated: ServeIsolated) -> None:
    with serve_isolated(make_isolated, max_concurrent_envs=1).wire() as wire:
        assert wire.reset()["data"]["observation"]["value"]["note"] == "from a function"


def test_a_module_that_starts_threads_is_imported_by_each_process(serve_isolated: ServeIsolated) -> None:
    with serve_isolated(ThreadedModule).wire() as wire:
        wire.reset()
        assert "of the module" in wire.step(what="threads")["data"]["observation"]["value"]


class TestModulesThatExistHereOnly:
    @pytest.fixture
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> type[Isolated]:
        module = ModuleType("made_by_a_test")
        made = type("Made", (Isolated,), {"__module__": module.__name__})
        module.Made = made  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return made

    async def test_the_server_does_not_start(self, environment: type[Isolated]) -> None:
        server = HTTPEnvServer(environment, Do, Shown, isolation="process")
        with pytest.raises(ConfigurationError, match=r"could not import them: ModuleNotFoundError: .*made_by_a_test"):
            await server.start()
        await server.close()

    async def test_where_nobody_starts_it_each_session_is_refused(self, environment: type[Isolated]) -> None:
        server = HTTPEnvServer(environment, Do, Shown, isolation="process")
        for _ in range(2):
            with pytest.raises(Exception, match="ModuleNotFoundError") as refused:
                await server._sessions.open()
            assert failure({"type": "error", "data": {"code": refused.value.code}})["code"] == "FACTORY_ERROR"  # type: ignore[attr-defined]
        assert server.active_sessions == 0
        await server.close()


SOURCE = """
from tests.support.environments.isolated import Isolated
from tests.support.environments.common import Shown

from . import PLACE


class Placed(Isolated):
    def step(self, action):
        return Shown(value=PLACE)
"""


def test_a_package_is_imported_from_where_the_server_has_it(
    serve_isolated: ServeIsolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder has another name, and another package of its name would be found first."""
    for place in ("served", "other/placed_env"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"PLACE = {place!r}\n")
        (folder / "environment.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = import_from_folder("placed_env.environment", tmp_path / "served")
    sys.path.insert(0, str(tmp_path / "other"))
    try:
        with serve_isolated(module.Placed).wire() as wire:
            wire.reset()
            assert wire.step(what="place")["data"]["observation"]["value"] == "served"
    finally:
        for name in ("placed_env", "placed_env.environment"):
            del sys.modules[name]
