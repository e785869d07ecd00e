"""A call that is described in one process and made in another, which is a fresh interpreter."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from threading import Event
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError

_MAIN = "__main__"
_MAIN_NAME = "init_main_from_name"
_MAIN_PATH = "init_main_from_path"

_preparing = Event()


@dataclass(frozen=True)
class FreshCall:
    """What a fresh interpreter needs to make a call.

    Attributes:
        function: Pickle of the function and its arguments, which names them by their import paths.
        preparation: What to do first, in the words of ``multiprocessing``: its arguments, and how to import the
            program's main module if that is needed.
    """

    function: bytes
    preparation: Mapping[str, Any]

    @classmethod
    def of(cls, function: Callable[[], Any]) -> Self:
        """Describe a call without arguments; a ``functools.partial`` brings some.

        Raises:
            ConfigurationError: A fresh interpreter could not import something of it.
        """
        try:
            pickled = pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigurationError(_refusal(str(error))) from error
        return cls(pickled, _preparation(with_main=_MAIN.encode() in pickled))

    def __call__(self) -> Any:
        """Make the call, in a fresh interpreter."""
        _preparing.set()
        try:
            spawn.prepare(dict(self.preparation))
            function = pickle.loads(self.function)  # noqa: S301  # written by the process that started this one
        finally:
            _preparing.clear()
        return function()


def refuse_while_preparing() -> None:
    """Refuse to start a server where a worker only imports the program that would start it.

    Raises:
        ConfigurationError: This is such a worker.
    """
    if _preparing.is_set():
        raise ConfigurationError(
            "The program starts a server whenever it is imported, and each worker imports it once more. Start the "
            'server under `if __name__ == "__main__":`, or put the environment into a module of its own.'
        )


def _preparation(*, with_main: bool) -> dict[str, Any]:
    known = spawn.get_preparation_data("openenv-worker")
    preparation = {"sys_argv": known["sys_argv"]}
    if not with_main:
        return preparation
    if _MAIN_NAME in known:
        return {**preparation, _MAIN_NAME: known[_MAIN_NAME]}
    if Path(known.get(_MAIN_PATH, "")).is_file():
        return {**preparation, _MAIN_PATH: known[_MAIN_PATH]}
    raise ConfigurationError(_refusal("it was defined in an interactive session"))


def _refusal(reason: str) -> str:
    return (
        f"Expected an environment that worker processes can import, but: {reason}. Define the class, and the function "
        "if one makes it, at the top level of a module, or serve it with workers=1."
    )
