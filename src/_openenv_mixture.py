"""Notice of files of the public package over those of this one, at each import of ``openenv``.

``openenv_mixture.pth`` imports this module when Python starts: the public package overwrites all that an import of
``openenv`` itself would run. Where nothing is wrong, that costs a look for one file.
"""

import os
import sys

_FOLDER = os.path.join(os.path.dirname(__file__), "openenv")  # noqa: PTH118, PTH120  # pathlib takes long to import


class _Notice:
    """Warns when ``openenv`` is imported, and finds no module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "openenv":
            sys.meta_path.remove(self)
            _warn()


def _warn() -> None:
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    spec = spec_from_file_location("openenv._mixture", os.path.join(_FOLDER, "_mixture.py"))  # noqa: PTH118
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # so that openenv does not say it a second time
    spec.loader.exec_module(module)
    module.warn_of_mixture(Path(_FOLDER))


# Both packages have left a file there: what is looked for is the same as in openenv._mixture.
if all(os.path.exists(os.path.join(_FOLDER, *path)) for path in (("auto", "_discovery.py"), ("_mixture.py",))):  # noqa: PTH110, PTH118
    sys.meta_path.insert(0, _Notice())
