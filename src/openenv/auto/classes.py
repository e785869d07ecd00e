"""Classes of an environment's package: those that its manifest names, else those in its modules.

A search is for public packages: their manifests name no modules, and their classes' names often don't follow from the
package's (``OpenSpielEnv`` in ``openspiel_env``).
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from openenv.auto.manifest import MANIFEST_FILE, Manifest
from openenv.auto.names import class_prefix
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_model


class Package(Protocol):
    """Facts of an environment's package that this module needs."""

    @property
    def module(self) -> str: ...  # noqa: D102

    @property
    def folder(self) -> Path: ...  # noqa: D102

    @property
    def manifest(self) -> Manifest: ...  # noqa: D102

    def import_module(self, name: str) -> ModuleType: ...  # noqa: D102


def find_class(
    package: Package,
    base: type,
    key: str,
    modules: tuple[str, ...],
    second_choice: tuple[type, ...] = (),
    otherwise: type | None = None,
) -> type[Any] | None:
    """Return the class that a manifest's key names, else the only class of its kind in some modules, or ``None``.

    Args:
        package: The package.
        base: The class that it extends.
        key: The manifest's key.
        modules: Where it is looked for, in this order.
        second_choice: Classes whose subclasses are meant only where there is no other.
        otherwise: A class that it may extend instead, where none extends ``base``.

    Raises:
        ConfigurationError: The key names something else, or a module has several such classes.
    """
    reference: str | None = getattr(package.manifest, key)
    if reference is None:
        found = _only_class(package, base, key, modules, second_choice)
        return _only_class(package, otherwise, key, modules, ()) if found is None and otherwise is not None else found
    found = load_attribute(package, key, reference) if ":" in reference else _named(package, key, reference, modules)
    if key == "action":  # which may be a union
        found = action_model(found) or found
    if not (isinstance(found, type) and issubclass(found, (base, *filter(None, [otherwise])))):
        raise _manifest_error(package, key, f"must name a subclass of {base.__name__}, but that is {found!r}")
    return found


def load_attribute(package: Package, key: str, reference: str) -> Any:
    """Import the attribute that a manifest's key names, as ``module:attribute``."""
    module_name, _, attribute = reference.partition(":")
    if not _existing(package, (module_name,)):
        raise _manifest_error(package, key, f"names the module {module_name}, which is not there")
    module = package.import_module(module_name)
    if not hasattr(module, attribute):
        raise _manifest_error(package, key, f"names {attribute!r}, which {module.__name__} lacks")
    return getattr(module, attribute)


def _named(package: Package, key: str, name: str, modules: tuple[str, ...]) -> Any:
    for module_name in _existing(package, modules):
        module = package.import_module(module_name)
        if hasattr(module, name):
            return getattr(module, name)
    searched = ", ".join(filter(None, modules))
    raise _manifest_error(package, key, f"was looked for in {searched}; name its location, as in module:{name}")


def _only_class(
    package: Package, base: type, key: str, modules: tuple[str, ...], second_choice: tuple[type, ...]
) -> type[Any] | None:
    for module_name in _existing(package, modules):
        found = own_classes(package.import_module(module_name), base, partial(_is_own, package))
        found = [cls for cls in found if not cls.__name__.startswith("_")] or found
        found = [cls for cls in found if not issubclass(cls, second_choice)] or found
        if len(found) > 1:
            found = [cls for cls in found if cls.__name__ == _usual_name(package, base, key)] or found
        if len(found) > 1:
            names = ", ".join(sorted(cls.__name__ for cls in found))
            raise _manifest_error(package, key, f"is needed, as each of {names} could be meant; name one")
        if found:
            return found[0]
    return None


def _is_own(package: Package, module: str) -> bool:
    """Return whether a module is the package's, also by the bare name that it has for starts in the folder."""
    top = module.partition(".")[0]
    return top == package.module.partition(".")[0] or bool(_existing(package, (top,)))


def _usual_name(package: Package, base: type, key: str) -> str:
    """Return the name that the scaffold gives such a class: ``MyAction`` in ``my_env``."""
    suffix = "Env" if key == "client" else base.__name__
    return class_prefix(package.module.rpartition(".")[2]) + suffix


def _existing(package: Package, modules: tuple[str, ...]) -> list[str]:
    """Return those of some modules that the folder has."""
    paths = {module: package.folder.joinpath(*(module or "__init__").split(".")) for module in modules}
    return [module for module, path in paths.items() if path.is_dir() or path.with_suffix(".py").is_file()]


def _manifest_error(package: Package, key: str, fault: str) -> ConfigurationError:
    return ConfigurationError(f"{package.folder / MANIFEST_FILE}: `{key}` {fault}.")


def only_environment(modules: Mapping[str, ModuleType]) -> type[Environment[Any, Any, Any]]:
    """Return the only class of an environment that some modules define.

    Raises:
        ConfigurationError: They define several, or none.
    """
    found = {cls: where for where, module in modules.items() for cls in own_classes(module, Environment)}
    if len(found) == 1:
        return next(iter(found))
    where = ", ".join(modules)
    if not found:
        raise ConfigurationError(
            f"{where}: expected a class that extends Environment, as in "
            "class MyEnvironment(Environment[MyAction, MyObservation, State]), and found none."
        )
    names = " and ".join(sorted(f"{module}:{cls.__name__}" for cls, module in found.items()))
    raise ConfigurationError(f"There are several environments: {names}. Give one of these names.")


def own_classes(module: ModuleType, base: type, is_own: Callable[[str], bool] | None = None) -> list[type[Any]]:
    """Return the subclasses in a module that are its own, without those that others of them extend.

    Args:
        module: The module.
        base: The class that they extend.
        is_own: Whether a class counts that a module of some name defines; by default only the module itself counts.
    """
    is_own = is_own or module.__name__.__eq__
    classes = dict.fromkeys(filter(inspect.isclass, vars(module).values()))
    own = [cls for cls in classes if issubclass(cls, base) and is_own(cls.__module__)]
    return [cls for cls in own if not any(other is not cls and issubclass(other, cls) for other in own)]
