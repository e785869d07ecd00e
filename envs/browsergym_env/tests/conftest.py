"""A browser with a page, and pages of our own in place of MiniWoB's."""

import importlib.util
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from browsergym_env.server import miniwob_tasks
from browsergym_env.server.browser import shared_browser
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from browsergym_env.server.settings import DEFAULT_TASK, Settings

MakeEnvironment = Callable[..., BrowserGymEnvironment]
AddPage = Callable[[str, str], None]


@pytest.fixture(scope="session")
def _chromium() -> Iterator[None]:
    """Ends the browser after the last test."""
    yield
    shared_browser(Settings()).stop()


@pytest.fixture(scope="session")
def _page(_chromium: None) -> Iterator[BrowserGymEnvironment]:
    environment = BrowserGymEnvironment(Settings(screenshot=False, timeout_ms=60_000))  # the machine may be busy
    yield environment
    environment.close()


@pytest.fixture
def environment(_page: BrowserGymEnvironment) -> BrowserGymEnvironment:
    """An environment without screenshots, whose page the tests use one after another."""
    return _page


@pytest.fixture
def make_environment(_chromium: None) -> Iterator[MakeEnvironment]:
    """Makes environments with settings of their own, closed after the test."""
    made: list[BrowserGymEnvironment] = []

    def make(**values: object) -> BrowserGymEnvironment:
        made.append(BrowserGymEnvironment(Settings(**{"screenshot": False, "timeout_ms": 60_000, **values})))
        return made[-1]

    yield make
    for environment in made:
        environment.close()


@pytest.fixture(scope="session")
def _own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package like MiniWoB's, with what its pages load and the one that settings name."""
    package = tmp_path_factory.mktemp("own") / "miniwob"
    (package / "html" / "miniwob").mkdir(parents=True)
    for name in ("core", "common", f"miniwob/{DEFAULT_TASK}.html"):
        (package / "html" / name).symlink_to(miniwob_tasks.pages_folder() / name)
    return package


@pytest.fixture
def own_pages(_own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddPage]:
    """Has tasks of our own in place of MiniWoB's; adds one by its name and script, which defines ``genProblem``."""

    def find_package(name: str) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, _own_folder / "__init__.py")

    def add(name: str, script: str) -> None:
        page = f"""<!DOCTYPE html><title>{name}</title><link rel="stylesheet" href="../core/core.css">
            <script src="../core/core.js"></script>
            <script>{script} window.onload = () => core.startEpisode();</script>
            <div id="wrap"><div id="query">Do it.</div><div id="area"></div></div>"""
        (_own_folder / "html" / "miniwob" / f"{name}.html").write_text(page, encoding="utf-8")
        miniwob_tasks.task_names.cache_clear()

    monkeypatch.setattr(miniwob_tasks, "find_spec", find_package)
    _forget_pages()
    yield add
    _forget_pages()


def _forget_pages() -> None:
    miniwob_tasks.pages_folder.cache_clear()
    miniwob_tasks.task_names.cache_clear()


@pytest.fixture(scope="session")
def _own_page(_chromium: None) -> Iterator[BrowserGymEnvironment]:
    environment = BrowserGymEnvironment(Settings(screenshot=False, timeout_ms=60_000))
    yield environment
    environment.close()


@pytest.fixture
def own_environment(own_pages: AddPage, _own_page: BrowserGymEnvironment) -> BrowserGymEnvironment:
    """An environment for tasks of our own, whose page the tests use one after another."""
    return _own_page
