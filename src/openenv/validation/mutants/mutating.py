"""Mutants of an environment: which there are, which are chosen, and the copy of the folder that each has."""

import ast
import random
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from openenv.auto.manifest import Manifest
from openenv.validation.mutants.code import Code
from openenv.validation.mutants.environment_operators import OPERATORS
from openenv.validation.source import IGNORED_FOLDERS, Source

_NO_CODE = ("tests", "player", "client", "conftest", "setup")


@dataclass(frozen=True)
class Mutant:
    """A fault in a copy of an environment.

    Attributes:
        operator: Name of the operator.
        file: The file that is changed, as seen from the environment's folder.
        line: The line.
        change: The change, for people.
        text: The changed file.
    """

    operator: str
    file: str
    line: int
    change: str
    text: str


def mutants_of(
    source: Source, lines: Mapping[str, Sequence[int]], names: Collection[str] | None = None
) -> dict[str, list[Mutant]]:
    """List the mutants of an environment's code, each change once, by operator.

    Args:
        source: The environment's files. Its player, its client and its tests are not changed.
        lines: Lines that run in episodes, by file: a change elsewhere would have no effect on them.
        names: Names of the operators; all if ``None``.
    """
    operators = [each for each in OPERATORS if names is None or each.name in names]
    found: dict[str, list[Mutant]] = {operator.name: [] for operator in operators}
    known = set[tuple[str, str]]()
    for file, tree in source.trees.items():
        ran = set(lines.get(file, ()))
        if not ran or not isinstance(tree, ast.Module) or not _is_environment(file, source):
            continue
        code = Code(file, source.texts[file])
        for operator in operators:
            for mutation in operator.find(code):
                text = code.mutated(mutation)
                if ran.isdisjoint(mutation.lines) or (file, text) in known:
                    continue
                known.add((file, text))
                found[operator.name].append(Mutant(operator.name, file, mutation.line, mutation.change, text))
    return found


def choose(found: Mapping[str, Sequence[Mutant]], count: int | None, seed: int) -> list[Mutant]:
    """Choose mutants, as many of each operator as of the others while it has some.

    Args:
        found: The mutants by operator.
        count: Number of the mutants; all if ``None``.
        seed: Determines the choice.

    Example:
        >>> first = Mutant("drop_check", "env.py", 3, "dropped", "")
        >>> choose({"drop_check": [first], "off_by_one": []}, 5, seed=0) == [first]
        True
    """
    shuffled = []
    for name, mutants in found.items():
        order = list(mutants)
        random.Random(f"{seed} {name}").shuffle(order)  # noqa: S311  # a sample, not a secret
        shuffled.append(order)
    chosen = [mutant for each in zip_longest(*shuffled) for mutant in each if mutant is not None]
    return chosen[:count]


@contextmanager
def copied(source: Source, mutant: Mutant | None) -> Iterator[Path]:
    """Copy an environment, with the fault of a mutant, for the time of the context.

    Args:
        source: The environment's files.
        mutant: The mutant; ``None`` for a copy without a fault.

    Yields:
        The folder of the copy.
    """
    with TemporaryDirectory(prefix="openenv-mutant-", ignore_cleanup_errors=True) as temporary:
        top = Path(temporary).resolve() / source.top_folder.name
        shutil.copytree(source.top_folder, top, symlinks=True, ignore=_ignored)
        folder = top / source.folder.relative_to(source.top_folder)
        if mutant is not None:
            (folder / mutant.file).write_text(mutant.text, encoding="utf-8")
        yield folder


def _ignored(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name in (*IGNORED_FOLDERS, ".git", ".venv")]


def _is_environment(file: str, source: Source) -> bool:
    """Return whether a file is neither of tests nor the player's or the client's."""
    path = PurePosixPath(file)
    named = [each.partition(":")[0] for each in _named(source.manifest) if each]
    module = ".".join(path.with_suffix("").parts)
    return module not in named and not any(part in _NO_CODE or part.startswith("test_") for part in module.split("."))


def _named(manifest: object) -> tuple[str | None, ...]:
    return (manifest.player, manifest.client) if isinstance(manifest, Manifest) else ()
