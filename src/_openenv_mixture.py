"""Notice of the public package in place of this one, or over files of it, at each import of ``openenv``.

``openenv_mixture.pth`` imports this module when Python starts: what an import of ``openenv`` itself would run may be
the public package's. Where nothing is wrong, that costs a look for one file in each folder of ``sys.path``.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# pathlib takes long to import. What is looked for is the same as in openenv._mixture.
_FOREIGN = os.path.join("openenv", "auto", "_discovery.py")  # noqa: PTH118
_OURS = os.path.join("openenv", "_mixture.py")  # noqa: PTH118


class _Notice:
    """Warns when ``openenv`` is imported, and finds no module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "openenv":
            sys.meta_path.remove(self)
            _warn()


def _warn() -> None:
    from importlib.machinery import PathFinder
    from pathlib import Path

    found = PathFinder.find_spec("openenv")
    ours = next((Path(entry) for entry in sys.path if os.path.exists(os.path.join(entry, _OURS))), None)  # noqa: PTH110, PTH118
    if found is None or found.origin is None or ours is None:
        return
    first = Path(found.origin).parents[1]
    if (first / _OURS).exists():
        _loaded(first / _OURS).warn_of_mixture(first / "openenv")
    elif (first / _FOREIGN).exists():
        _loaded(ours / _OURS).warn_of_shadow(first / "openenv", ours / "openenv")


def _loaded(file: "os.PathLike[str]") -> "ModuleType":
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("openenv._mixture", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # so that openenv does not say it a second time
    spec.loader.exec_module(module)
    return module


if any(os.path.exists(os.path.join(entry, _FOREIGN)) for entry in sys.path):  # noqa: PTH110, PTH118
    sys.meta_path.insert(0, _Notice())
