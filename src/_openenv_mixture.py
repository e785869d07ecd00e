"""Notice of the public package in place of this one, or over files of it, at each import of ``openenv``.

``openenv_mixture.pth`` imports this module when Python starts: what an import of ``openenv`` itself would run may be
the public package's, in a folder that a program adds to ``sys.path`` later.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

# pathlib takes long to import. What is looked for is the same as in openenv._mixture.
_FOREIGN = os.path.join("openenv", "cli", "_cli_utils.py")  # noqa: PTH118
_OURS = os.path.join("openenv", "_mixture.py")  # noqa: PTH118


class _Notice:
    """Warns when ``openenv`` is imported, and finds no module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "openenv":
            sys.meta_path.remove(self)
            _warn()


def _warn() -> None:
    from importlib.machinery import PathFinder

    ours = next((entry for entry in sys.path if _exists(entry, _OURS)), None)
    found = PathFinder.find_spec("openenv")
    if found is None or ours is None:
        return
    if found.origin is None:
        _loaded(ours).warn_of_remains(_package(ours))
        return
    first = os.path.dirname(os.path.dirname(found.origin))  # noqa: PTH120
    if _exists(first, _FOREIGN):
        if _exists(first, _OURS):
            _loaded(first).warn_of_mixture(_package(first))
        else:
            _loaded(ours).warn_of_shadow(_package(first), _package(ours))


def _exists(folder: str, file: str) -> bool:
    return os.path.exists(os.path.join(folder, file))  # noqa: PTH110, PTH118


def _package(folder: str) -> "Path":
    from pathlib import Path

    return Path(folder, "openenv").absolute()


def _loaded(folder: str) -> "ModuleType":
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("openenv._mixture", os.path.join(folder, _OURS))  # noqa: PTH118
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # so that openenv does not say it a second time
    spec.loader.exec_module(module)
    return module


sys.meta_path.insert(0, _Notice())
