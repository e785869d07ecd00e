"""What makes the environments, in a form that another process can import; or why there is none."""

import inspect
import io
import logging
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.environment_types import EnvironmentFactory
from openenv.core.env_server.isolation.template import Plan
from openenv.core.exceptions import ConfigurationError

_MAIN = "__main__"


def plan_for(factory: EnvironmentFactory, action_class: type[BaseModel]) -> Plan:
    """Describe a factory to the processes that will import it.

    Args:
        factory: Makes the environments.
        action_class: Class of the actions that are sent to them.

    Raises:
        ConfigurationError: Another process can't import one of the two.
    """
    if factory.shared is not None:
        raise ConfigurationError(
            f"{factory.name} was given as one instance for all sessions, which can't be moved to another process; with "
            'isolation="process", give its class, or a function or functools.partial that makes it.'
        )
    source, modules = _pickled(factory.source, "make environments")
    _, action_modules = _pickled(action_class, "hold their actions")
    modules |= action_modules
    return Plan(source, _main() if _MAIN in modules else {}, _packages(modules), True, logging.getLogger().level)


def _pickled(value: Any, purpose: str) -> tuple[bytes, set[str]]:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f'isolation="process" needs what is to {purpose} to be importable in another process, and {_shown(value)} '
            f"is not: {error}. Use a class or function at the top level of a module, or a functools.partial of one "
            "with arguments that can be pickled."
        ) from error
    return buffer.getvalue(), pickler.modules


def _shown(value: Any) -> str:
    while isinstance(value, partial):
        value = value.func
    return (
        f"{value.__module__}.{value.__qualname__}"
        if inspect.isroutine(value) or inspect.isclass(value)
        else repr(value)
    )


class _Pickler(pickle.Pickler):
    """Notes the modules of the classes and functions that it meets."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        """Leave everything as it is."""
        if inspect.isroutine(value) or inspect.isclass(value):
            self.modules.add(str(value.__module__))
        return NotImplemented


def _main() -> dict[str, Any]:
    """Say how the program's main module is imported, as ``multiprocessing.spawn.prepare`` expects it."""
    module = sys.modules[_MAIN]
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    if spec is not None:
        return {"sys_argv": sys.argv, "init_main_from_name": spec.name}
    if file is None or not Path(file).is_file():
        raise ConfigurationError(
            'isolation="process" has to import the environment in another process, which is not possible with what was '
            "typed into an interpreter or a notebook. Put it into a file, and import it from there."
        )
    return {"sys_argv": sys.argv, "init_main_from_path": str(Path(file).resolve())}


def _packages(modules: set[str]) -> dict[str, str]:
    """Find the files of the topmost packages; those without one are found along ``sys.path`` anyway."""
    tops = {module.partition(".")[0] for module in modules} - {_MAIN}
    files = {top: getattr(sys.modules.get(top), "__file__", None) for top in sorted(tops)}
    return {top: file for top, file in files.items() if file is not None}
