"""The kinds of tasks that are made by chance, a module for each."""

from collections.abc import Callable, Mapping
from random import Random

from ..task_format import TerminalTask
from . import config, files, logs, repository, script, tables

FAMILIES: Mapping[str, Callable[[Random, str], TerminalTask]] = {
    "config": config.make,
    "files": files.make,
    "logs": logs.make,
    "repository": repository.make,
    "script": script.make,
    "tables": tables.make,
}
"""Maker of a task of each kind, from chance and a difficulty."""
