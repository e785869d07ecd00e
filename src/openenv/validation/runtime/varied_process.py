"""Servers in processes that differ in what no episode may depend on: hash seed, time zone, locale, clock, directories.

Python's clock and the order of directories are varied within the process, before anything of the environment is
imported: this module is then the program that is run instead of ``openenv.cli``.
"""

import copyreg
import datetime
import logging  # noqa: F401  # before the clock is another, since it keeps time.localtime
import os
import runpy
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from openenv.core.providers.local_process import LocalProcessProvider

_CLI = "openenv.cli"
# They have classes of dates of their own, which are made of the real ones.
_WITH_DATES = ("openenv.core.env_server.app", "pydantic.v1.types")
# Another year, weekday, hour and minute.
_LATER_S = 400 * 86400 + 7 * 3600 + 11 * 60
_LATER = datetime.timedelta(seconds=_LATER_S)
_NANOSECONDS = 10**9
_LOCALES = ("C.UTF-8", "C")

ResultT = TypeVar("ResultT")


class Variation(StrEnum):
    """Difference from the process before.

    Attributes:
        HASH_SEED: The order of sets of texts.
        TIME_ZONE: The local time.
        LOCALE: The language of the user.
        CLOCK: The date and the time.
        DIRECTORIES: The order in which a folder's files are listed.
    """

    HASH_SEED = "hash seed"
    TIME_ZONE = "time zone"
    LOCALE = "locale"
    CLOCK = "clock"
    DIRECTORIES = "order of directories"


class VariedProcessProvider(LocalProcessProvider):
    """Runs ``openenv serve`` in a child process with variations; see ``LocalProcessProvider``.

    Args:
        environment: Name of an installed environment, the folder that holds its ``openenv.yaml``, or its file.
        variations: What is varied.
        env_vars: Environment variables to set for the server.
    """

    def __init__(
        self, environment: str | Path, variations: Collection[Variation], env_vars: Mapping[str, str] | None = None
    ) -> None:
        variables = dict(env_vars or {})
        if Variation.HASH_SEED in variations:
            variables["PYTHONHASHSEED"] = "2"
        if Variation.TIME_ZONE in variations:
            variables["TZ"] = "OTHER-13:45"
        if Variation.LOCALE in variations:
            current = os.environ.get("LC_ALL") or os.environ.get("LANG")
            variables["LC_ALL"] = next(name for name in _LOCALES if name != current)
        super().__init__(environment, env_vars=variables)
        self._within = [each.name for each in (Variation.CLOCK, Variation.DIRECTORIES) if each in variations]

    def _wrapped(self, command: Sequence[str]) -> Sequence[str]:
        at = command.index(_CLI)
        return [*command[:at], __name__, ",".join(self._within), *command[at + 1 :]] if self._within else command


class _Replaced(Generic[ResultT]):
    """Function of the standard library that is replaced; unlike a function of Python, it becomes no method."""

    def __init__(self, function: Callable[..., ResultT], replace: Callable[..., ResultT]) -> None:
        self._function = function
        self._replace = replace
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> ResultT:
        return self._replace(self._function, *arguments, **named)


class _Listing:
    """Entries of a folder in another order, in the form of ``os.scandir``."""

    def __init__(self, entries: Iterator[os.DirEntry[Any]]) -> None:
        self._entries = iter(list(entries)[::-1])

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: the folder is closed already."""

    def close(self) -> None:
        """Do nothing: the folder is closed already."""


def _reverse_directories() -> None:
    os.listdir = _Replaced(os.listdir, _reversed_list)
    os.scandir = _Replaced(os.scandir, _reversed_scan)


def _reversed_list(listdir: Callable[..., list[Any]], *arguments: Any, **named: Any) -> list[Any]:
    return listdir(*arguments, **named)[::-1]


def _reversed_scan(scandir: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    with scandir(*arguments, **named) as entries:
        return _Listing(entries)


def _shift_clock() -> None:
    for name in ("time", "time_ns"):
        setattr(time, name, _Replaced(getattr(time, name), _later_seconds if name == "time" else _later_nanoseconds))
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _Replaced(getattr(time, name), _of_later))
    time.strftime = _Replaced(time.strftime, _formatted)
    for replaced in (_Date, _DateTime):
        copyreg.pickle(replaced.real, _Replaced(replaced, _reduced))
        setattr(datetime, replaced.__qualname__, replaced)


def _reduced(kind: type, value: Any) -> Any:
    """Return what pickle makes a value of again: the class that has its name now."""
    return kind, value.__reduce__()[1]


def _later_seconds(function: Callable[[], float]) -> float:
    return function() + _LATER_S


def _later_nanoseconds(function: Callable[[], int]) -> int:
    return function() + _LATER_S * _NANOSECONDS


def _of_later(function: Callable[[float], Any], seconds: float | None = None) -> Any:
    return function(time.time() if seconds is None else seconds)


def _formatted(function: Callable[..., str], form: str, *times: Any) -> str:
    return function(form, *(times or (time.localtime(),)))


class _StandsFor(type):
    """Class that stands for one of the standard library: the instances of that are its own."""

    real: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)


class _Date(datetime.date, metaclass=_StandsFor):
    __module__, __qualname__ = "datetime", "date"  # by which pickle finds it
    real = datetime.date

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return cls.real.__new__(cls.real if cls is _Date else cls, *arguments, **named)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())


class _DateTime(datetime.datetime, metaclass=_StandsFor):
    __module__, __qualname__ = "datetime", "datetime"
    real = datetime.datetime

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return cls.real.__new__(cls.real if cls is _DateTime else cls, *arguments, **named)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return super().now(tz) + _LATER

    @classmethod
    def utcnow(cls) -> Any:
        return super().utcnow() + _LATER

    @classmethod
    def today(cls) -> Any:
        return cls.now()


def main() -> None:
    """Vary this process by the first argument, and run the command that follows."""
    variations = sys.argv.pop(1).split(",")
    for name in _WITH_DATES:
        import_module(name)
    if Variation.DIRECTORIES.name in variations:
        _reverse_directories()
    if Variation.CLOCK.name in variations:
        _shift_clock()
    runpy.run_module(_CLI, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
