"""Tasks about files in an inbox: delete, sort into folders, rename."""

from collections import defaultdict
from random import Random

from ..task_format import Check, FolderCheck, TerminalTask

_NAMES = ("budget", "letter", "list", "meeting notes", "plan", "recipe", "report", "trip to town")
_ENDINGS = ("csv", "md", "txt", "TXT", "Csv")


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    prompt, inbox, checks = {"easy": _delete, "medium": _sort, "hard": _rename}[difficulty](chance)
    files = {f"inbox/{name}": text for name, text in inbox.items()}
    return TerminalTask(prompt=prompt, files=files, checks=tuple(checks), family="files", difficulty=difficulty)


def _delete(chance: Random) -> tuple[str, dict[str, str], list[Check]]:
    ending = chance.choice(("tmp", "bak", "old"))
    kept = _documents(chance)
    gone = {f"{name}.{ending}": "not needed\n" for name in chance.sample(_NAMES, chance.randint(2, 5))}
    kept |= {f"{ending}.txt": "a note\n", f"about {ending}": "another note\n"}
    prompt = (
        f"Delete the files in the folder inbox, and in the folders below it, whose names end in .{ending}, and leave "
        "all other "
        "files as they are."
    )
    inbox = _shuffled(chance, kept | gone | {f"archive/{name}": text for name, text in gone.items()})
    return prompt, inbox, [FolderCheck(name=f"inbox without files ending in .{ending}", path="inbox", files=kept)]


def _sort(chance: Random) -> tuple[str, dict[str, str], list[Check]]:
    inbox = _documents(chance)
    folders: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name, text in inbox.items():
        folders[name.rpartition(".")[2].lower()][name] = text
    prompt = (
        "Move each file of the folder inbox to a folder below the folder sorted that is named after what stands "
        "behind the "
        "last dot of its name, in small letters: inbox/plan.TXT becomes sorted/txt/plan.TXT. The files keep their "
        "names."
    )
    checks: list[Check] = [
        FolderCheck(name=f"the folder sorted/{ending}", path=f"sorted/{ending}", files=files)
        for ending, files in sorted(folders.items())
    ]
    return prompt, inbox, [*checks, FolderCheck(name="an empty inbox, with everything sorted", path="inbox", files={})]


def _rename(chance: Random) -> tuple[str, dict[str, str], list[Check]]:
    others = _documents(chance)
    inbox, months = dict(others), defaultdict[str, dict[str, str]](dict)
    for number in range(chance.randint(6, 12)):
        year, month, day = chance.choice((2024, 2025)), chance.randint(1, 3), chance.randint(1, 28)
        text = f"scan {number}, {chance.randrange(10**6)}\n"
        inbox[f"Scan {day:02}.{month:02}.{year} ({number}).txt"] = text
        months[f"{year}/{month:02}"][f"{day:02}-{number}.txt"] = text
    prompt = (
        "Some files of the folder inbox are scans, with names like `Scan 07.03.2024 (12).txt`: day, month, year, and "
        "a number. "
        "Move these to folders for year and month, with names made of day and number: `scans/2024/03/07-12.txt`. All "
        "other "
        "files stay where they are."
    )
    checks: list[Check] = [
        FolderCheck(name=f"the folder scans/{month}", path=f"scans/{month}", files=files)
        for month, files in sorted(months.items())
    ]
    return prompt, _shuffled(chance, inbox), [*checks, FolderCheck(name="what stays", path="inbox", files=others)]


def _documents(chance: Random) -> dict[str, str]:
    names = chance.sample(_NAMES, chance.randint(4, len(_NAMES)))
    return {f"{name}.{chance.choice(_ENDINGS)}": f"{name}, {chance.randrange(10**6)}\n" for name in names}


def _shuffled(chance: Random, files: dict[str, str]) -> dict[str, str]:
    names = sorted(files)
    chance.shuffle(names)
    return {name: files[name] for name in names}
