"""Goldens: records of what the package answers, stored as text, and their comparison with what it answers now."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from openenv.records.run_times import ACTIONS_SPEED, ACTIVITIES, TOKENS_SPEED, time_metric

STORED = Path(__file__).parent / "stored"

TIMES = frozenset(
    {
        *("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"),
        *map(time_metric, ACTIVITIES),
        *(TOKENS_SPEED, ACTIONS_SPEED),
    }
)
"""Fields that are left out of every golden: seconds that this machine took, and rates of these."""

# Lines of a failure that show differences; the number of the others is shown.
_MOST_SHOWN = 40
_MOST_CHARACTERS = 300
# Lists of numbers are written in one line.
_NUMBERS = re.compile(r'\[\s*([^\[\]{}"]+?)\s*\]')


@dataclass(frozen=True)
class Golden:
    """Record of one kind of answers.

    Functions are named as ``MODULE:NAME``, so that the table of goldens imports nothing that only some of them need.

    Attributes:
        made_by: Function that makes the answers anew within an empty folder, as JSON values.
        may_change: Sentence that says what may change on purpose, and what may not.
        recorded_by: Function that makes what is recorded; by default ``made_by``.
        compared_by: Function that returns the lines in which what is recorded and what is made now differ.
    """

    made_by: str
    may_change: str
    recorded_by: str | None = None
    compared_by: str = f"{__name__}:differences"

    def make(self, folder: Path) -> Any:
        """Make the answers anew."""
        return normalised(resolve_name(self.made_by)(folder), folder)

    def record(self, folder: Path) -> Any:
        """Make what is recorded."""
        return normalised(resolve_name(self.recorded_by or self.made_by)(folder), folder)

    def differences(self, recorded: Any, made: Any) -> list[str]:
        """Return the lines in which what is recorded and what is made now differ."""
        # As it would be read back, so that a tuple and a list do not differ.
        found: list[str] = resolve_name(self.compared_by)(recorded, json.loads(text_of(made)))
        return found


def file_of(name: str) -> Path:
    """Return the file of a golden."""
    return STORED / f"{name}.json"


def stored(name: str) -> Any:
    """Return a golden as it was recorded."""
    return json.loads(file_of(name).read_text(encoding="utf-8"))


def store(name: str, value: Any) -> None:
    """Write a golden."""
    STORED.mkdir(exist_ok=True)
    file_of(name).write_text(text_of(value), encoding="utf-8")


def text_of(value: Any) -> str:
    """Return the text of a golden: sorted JSON, in which a list of numbers is one line.

    Example:
        >>> print(text_of({"b": [1, 2.5], "a": ["x"]}), end="")
        {
         "a": [
          "x"
         ],
         "b": [1, 2.5]
        }
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def normalised(value: Any, folder: Path | None = None) -> Any:
    """Return JSON values without what differs between two runs and two machines.

    The fields of ``TIMES`` are left out, and the path of the folder that the answers were made in is ``FOLDER``.
    """
    if isinstance(value, Mapping):
        return {str(name): normalised(part, folder) for name, part in value.items() if name not in TIMES}
    if isinstance(value, list | tuple):
        return [normalised(part, folder) for part in value]
    if isinstance(value, str) and folder is not None:
        return value.replace(str(folder), "FOLDER")
    return value


def check(name: str, golden: Golden, folder: Path) -> Any:
    """Make a golden anew and compare it; return what was made.

    Args:
        name: Its name.
        golden: The golden.
        folder: Empty folder to make it in.

    Raises:
        AssertionError: They differ; the message has the differences, what may change, and how it is recorded.
    """
    made = golden.make(folder)
    found = golden.differences(stored(name), made)
    if found:
        raise AssertionError(message_of(name, golden.may_change, found))
    return made


def message_of(name: str, may_change: str, found: Sequence[str]) -> str:
    """Return the message for a golden that differs."""
    shown = [line[:_MOST_CHARACTERS] for line in found[:_MOST_SHOWN]]
    more = [f"  and {len(found) - _MOST_SHOWN} more lines"] if len(found) > _MOST_SHOWN else []
    return "\n".join(
        [
            f"The golden {name!r} differs from what is made now (- recorded, + now):",
            *shown,
            *more,
            f"What may change on purpose: {may_change}",
            f"Where the change is on purpose, record it and name it in the commit: python -m tests.goldens {name}",
        ]
    )


def differences(recorded: Any, made: Any) -> list[str]:
    r"""Return the values that differ, each in a line with the way to it.

    Example:
        >>> print("\n".join(differences({"a": [1, 2, 3], "b": 1}, {"a": [1, 3], "b": 2.5})))
        - a[1]: 2
        - b: 1
        + b: 2.5
    """
    return list(_differences("", recorded, made))


def _differences(path: str, recorded: Any, made: Any) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(made, dict):
        for name in sorted({*recorded, *made}):
            below = f"{path} / {name}" if path else name
            if name not in made:
                yield _line("-", below, recorded[name])
            elif name not in recorded:
                yield _line("+", below, made[name])
            else:
                yield from _differences(below, recorded[name], made[name])
    elif isinstance(recorded, list) and isinstance(made, list):
        yield from _differences_of_lists(path, recorded, made)
    elif json.dumps(recorded) != json.dumps(made):  # 1 is not 1.0, nor true
        yield _line("-", path, recorded)
        yield _line("+", path, made)


def _differences_of_lists(path: str, recorded: list[Any], made: list[Any]) -> Iterator[str]:
    if len(recorded) == len(made):
        for number, (before, after) in enumerate(zip(recorded, made, strict=True)):
            yield from _differences(f"{path}[{number}]", before, after)
        return
    befores, afters = ([json.dumps(value, sort_keys=True) for value in values] for values in (recorded, made))
    for kind, start, end, new_start, new_end in SequenceMatcher(a=befores, b=afters, autojunk=False).get_opcodes():
        if kind == "replace" and end - start == new_end - new_start:
            for number, new in zip(range(start, end), range(new_start, new_end), strict=True):
                yield from _differences(f"{path}[{number}]", recorded[number], made[new])
        elif kind != "equal":
            yield from (_line("-", f"{path}[{number}]", recorded[number]) for number in range(start, end))
            yield from (_line("+", f"{path}[{number}]", made[number]) for number in range(new_start, new_end))


def _line(sign: str, path: str, value: Any) -> str:
    return f"{sign} {path}: {json.dumps(value, ensure_ascii=False)}"
