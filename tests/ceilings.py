"""Figures of the house that only fall: what is held, what is found, and which of them has to change.

    python -m tests.ceilings                  # every figure beside its ceiling
    python -m tests.ceilings --where place    # each use of a word, or each module with a class of a name
    python -m tests.ceilings --lower          # lower the ceilings of figures that have fallen

The ceilings are in ``tests/ceilings.toml``; ``RULES`` says how each of its tables is measured.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.support.glossary import UNUSED, unused_words, uses, words_of
from tests.support.source import PACKAGE, Module, modules

FILE = Path(__file__).with_suffix(".toml")

_FUNCTION_LINES = 60
_FILE_LINES = 600
_QUESTIONS = {"What", "Where", "Who", "Whose", "Whom", "How", "Whether", "Which", "When", "Why"}
# Outside the folders that the glossary names, these mean another thing, and are the field's word for it: the Hugging
# Face Hub, a link of a page or between processes, and what writes a format or a stream.
_OWN_MEANING = {"hub", "link", "writer"}
_SHOWN = 20


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        count: The figure.
        locations: What was counted, where it can be named.
    """

    count: int
    locations: tuple[str, ...] = ()


Figures = Mapping[str, Figure]
Ceilings = Mapping[str, int]


@dataclass(frozen=True)
class Rule:
    """A table of ceilings.

    Attributes:
        title: What is counted.
        measure: Counts it.
        remedy: What to do about a figure that has risen.
        usual: The ceiling of what the table does not list.
        room: Share of a ceiling by which a figure may rise, and fall, before the ceiling has to change.
    """

    title: str
    measure: Callable[[], Figures]
    remedy: str
    usual: int = 0
    room: float = 0.0


def step_path() -> Figures:
    """Count the functions on the way of a step, and of a client's call."""
    from benchmarks.step_path import functions  # imports a server

    return {kind: Figure(len(names), tuple(names)) for kind, names in functions().items()}


def folders(root: Path = PACKAGE) -> Figures:
    """Count the modules of each folder, without its ``__init__.py``."""
    inside = defaultdict(list)
    for module in modules(root):
        path = PurePosixPath(module.path)
        if path.name != "__init__.py":
            inside[str(path.parent)].append(path.name)
    return _counted(inside)


def lines(root: Path = PACKAGE) -> Figures:
    """Count the lines of the core, and of the rest."""
    return {half: Figure(sum(module.lines for module in found)) for half, found in _halves(root).items()}


def module_counts(root: Path = PACKAGE) -> Figures:
    """Count the modules of the core, and of the rest."""
    return {half: Figure(len(found)) for half, found in _halves(root).items()}


def _halves(root: Path) -> dict[str, list[Module]]:
    halves: dict[str, list[Module]] = {"core": [], "rest": []}
    for module in modules(root):
        halves["core" if module.path.startswith("core/") else "rest"].append(module)
    return halves


def words_in_names(root: Path = PACKAGE) -> Figures:
    """Count the names that have a word of the glossary's tables of unused words, once for each module."""
    return _words((f"{module.path}: {name}", name) for module in modules(root) for name in sorted(module.names))


def words_in_docstrings(root: Path = PACKAGE) -> Figures:
    """Count the uses of these words in docstrings."""
    return _words((f"{module.path}:{text.line}", text.text) for module in modules(root) for text in module.docstrings)


def words_in_messages(root: Path = PACKAGE) -> Figures:
    """Count the uses of these words in other strings that have a space, such as messages."""
    return _words((f"{module.path}:{text.line}", text.text) for module in modules(root) for text in module.messages)


def words_in_help() -> Figures:
    """Count the uses of these words in what ``--help`` says, of all commands and subcommands."""
    from tests.goldens.commands import help_of_commands  # loads every command

    return _words(text for name, described in help_of_commands(Path()).items() for text in _help(name, described))


def _help(name: str, described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Iterate over the help texts of a command, each after its command or option."""
    yield name, described["help"]
    for option, parameter in described["parameters"].items():
        yield f"{name} {option}", parameter.get("help", "")


def _words(texts: Iterable[tuple[str, str]]) -> Figures:
    """Count the unused words of the glossary in texts, each of which comes after its location."""
    unused = [word for heading in UNUSED for word in unused_words(heading) if word not in _OWN_MEANING]
    any_of_them = re.compile(f" (?:{'|'.join(unused)})s? ")
    found: dict[str, list[str]] = defaultdict(list)
    for location, text in texts:
        words = words_of(text)
        if any_of_them.search(words):
            for word in unused:
                if count := uses(word, words):
                    found[word] += [location] * count
    return _counted(found)


def questions(root: Path = PACKAGE) -> Figures:
    """Count the docstrings that begin with a question word, by that word."""
    found = defaultdict(list)
    for module in modules(root):
        for text in module.docstrings:
            word = words_of(text.text.lstrip()[:20]).split(maxsplit=1)[:1]
            found["".join(word).capitalize()].append(f"{module.path}:{text.line}")
    return _counted({word: locations for word, locations in found.items() if word in _QUESTIONS})


def class_names(root: Path = PACKAGE) -> Figures:
    """Count the modules that have a public class of a name."""
    found = defaultdict(list)
    for module in modules(root):
        for name in set(module.public_classes):
            found[name].append(module.path)
    return _counted(found)


def training(root: Path = PACKAGE) -> Figures:
    """Count what ``openenv.train`` exports, and its public classes."""
    exports = list(import_module("openenv.train").__all__)
    classes = [
        f"{module.path}: {name}"
        for module in modules(root)
        for name in module.public_classes
        if module.path.startswith("train/")
    ]
    return _counted({"exports": exports, "public classes": classes})


def sizes(root: Path = PACKAGE) -> Figures:
    """Count long functions, long files, and handlers that catch every exception."""
    return _counted(
        {
            f"functions over {_FUNCTION_LINES} lines": [
                f"{module.path}:{function.line} {function.name}, {function.length}"
                for module in modules(root)
                for function in module.functions
                if function.length > _FUNCTION_LINES
            ],
            f"files over {_FILE_LINES} lines": [
                f"{module.path}, {module.lines}" for module in modules(root) if module.lines > _FILE_LINES
            ],
            "broad excepts": [f"{module.path}:{line}" for module in modules(root) for line in module.broad_excepts],
        }
    )


def _counted(locations: Mapping[str, list[str]]) -> Figures:
    return {key: Figure(len(found), tuple(found)) for key, found in locations.items()}


_WORD = "docs/glossary.md names the better word; use it, or the noun of the thing."
_LINES = (
    "Look for the code that this change makes superfluous, or for a second implementation of what there is, and delete "
    "it. Where a feature needs the lines, say so in the commit that raises the ceiling."
)
RULES = {
    "step_path": Rule(
        "functions on the way of a step, and of a call",
        step_path,
        "Join functions that only call each other; `python -m benchmarks.step_path` prints the way.",
    ),
    "folders": Rule(
        "modules in a folder", folders, "Divide the folder by the questions that it answers, or join modules.", usual=12
    ),
    "lines": Rule("lines of modules", lines, _LINES, room=0.01),
    "modules": Rule("modules", module_counts, _LINES, room=0.02),
    "words_in_names": Rule("names with a word that is not used", words_in_names, _WORD),
    "words_in_docstrings": Rule("uses of such a word in docstrings", words_in_docstrings, _WORD),
    "words_in_messages": Rule("uses of such a word in messages", words_in_messages, _WORD),
    "words_in_help": Rule("uses of such a word in help texts", words_in_help, _WORD),
    "questions": Rule(
        "docstrings that begin with a question word",
        questions,
        "Begin with the noun or the verb of what it does.",
    ),
    "class_names": Rule(
        "modules with a public class of one name", class_names, "Give the new class a name of its own.", usual=1
    ),
    "training": Rule(
        "public names of training", training, "Make it an argument or a method of what is exported, or a private name."
    ),
    "sizes": Rule(
        "long functions, long files, handlers that catch every exception",
        sizes,
        "Divide what is long, and catch the exceptions that the code can answer.",
    ),
}


def read_ceilings() -> dict[str, Ceilings]:
    """Return the ceilings by table."""
    return tomllib.loads(FILE.read_text())


def faults(name: str, figures: Figures, held: Ceilings) -> list[str]:
    """Say which figures of a table are above their ceilings, and which are so far below that the ceiling has to follow.

    Args:
        name: The table.
        figures: What was measured.
        held: Ceilings of the table.
    """
    rule, found = RULES[name], []
    for key in sorted({*figures, *held}):
        figure, ceiling = figures.get(key, Figure(0)), held.get(key, rule.usual)
        room = int(ceiling * rule.room)
        what = f"{name}, {key}: {rule.title}, {figure.count}, with a ceiling of {ceiling}"
        if figure.count > ceiling + room:
            more = f" and room for {room} more" if room else ""
            found.append(f"{what}{more}. {rule.remedy}{_listed(key, figure.locations)}")
        elif key in held and (figure.count < ceiling - room or ceiling <= rule.usual):
            found.append(f"{what}. Lower it, so that what is won is held: python -m tests.ceilings --lower")
    return found


def _listed(key: str, locations: tuple[str, ...]) -> str:
    shown = "".join(f"\n  {location}" for location in locations[:_SHOWN])
    rest = len(locations) - _SHOWN
    return shown + (f"\n  and {rest} more: python -m tests.ceilings --where {key!r}" if rest > 0 else "")


def lowered(text: str, figures: Mapping[str, Figures]) -> str:
    """Return the file's text with each ceiling at its figure, where that is less.

    What needs no ceiling of its own any more is left out. No ceiling is raised, and comments stay.

    Args:
        text: The file.
        figures: What was measured, by table.
    """
    kept, table = [], ""
    for line in text.splitlines(keepends=True):
        if heading := re.match(r"\[(\w+)\]", line):
            table = heading[1]
        if entry := re.match(r'"?([^"#]+?)"? = (\d+)', line):
            key, ceiling = entry[1], int(entry[2])
            count = figures[table].get(key, Figure(0)).count
            if count <= RULES[table].usual:
                continue
            line = f"{line[: entry.start(2)]}{min(count, ceiling)}{line[entry.end(2) :]}"  # noqa: PLW2901
        kept.append(line)
    return "".join(kept)


def main(
    lower: Annotated[bool, typer.Option("--lower", help="Lower the ceilings of figures that have fallen.")] = False,
    where: Annotated[str, typer.Option(metavar="KEY", help="List what is counted under this key.")] = "",
) -> None:
    """Print every figure beside its ceiling."""
    measured = {name: rule.measure() for name, rule in RULES.items()}
    if lower:
        FILE.write_text(lowered(FILE.read_text(), measured))
    console, held = Console(soft_wrap=True), read_ceilings()
    for name, figures in measured.items():
        if where:
            for location in figures.get(where, Figure(0)).locations:
                console.print(f"{name}: {location}", markup=False, highlight=False)
        else:
            console.print(_table(name, figures, held.get(name, {})))


def _table(name: str, figures: Figures, held: Ceilings) -> Table:
    rule = RULES[name]
    shown = Table(name, "figure", "ceiling", title=rule.title, title_justify="left")
    for key in sorted({*held, *(key for key, figure in figures.items() if figure.count > rule.usual)}):
        shown.add_row(key, str(figures.get(key, Figure(0)).count), str(held.get(key, rule.usual)))
    return shown


if __name__ == "__main__":
    typer.run(main)
