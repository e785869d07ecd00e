"""Modules that tests import from folders of their own, which other files of tests have to find as if new.

As a plugin it gives each file of tests the ``sys.path`` that the one before it found: an application in a folder is
imported with its folder on the path, as in a process of its own. Our classes, too, leave SkyRL's registry at its end,
which refuses a name that it has.
"""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

_FOUND = pytest.StashKey[tuple[list[str], set[str]]]()
"""``sys.path``, and the names of modules, before the first test of a file."""


def forget_modules_of(folder: Path) -> None:
    """Forget the modules that were imported from a folder: the next test may have others of these names."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{folder}/"):
            del sys.modules[name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Take back what the tests of a file have added to ``sys.path``, with the modules that were found there."""
    found = item.session.stash.setdefault(_FOUND, (list(sys.path), set(sys.modules)))
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _restore(*found)
        _deregister()
        del item.session.stash[_FOUND]
    return result


def _restore(path: list[str], modules: set[str]) -> None:
    added = [Path(entry) for entry in sys.path if entry not in path]
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        top = name.partition(".")[0]
        file = getattr(sys.modules[name], "__file__", None)
        homes = [home for entry in added for home in (entry / top, entry / f"{top}.py")]
        if file is not None and any(Path(file).is_relative_to(home) for home in homes):
            del sys.modules[name]


def _deregister() -> None:
    registration = sys.modules.get("skyrl_gym.envs.registration")
    if registration is not None:
        for name, spec in list(registration.registry.items()):
            if str(spec.entry_point).startswith("openenv."):
                del registration.registry[name]
