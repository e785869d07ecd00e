"""A folder of recorded episodes, which grows line by line and outlives a kill."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from openenv.core.documents import DocumentError, first_new_folder, is_draft, parse_json, read_json, write_json
from openenv.core.exceptions import ConfigurationError
from openenv.records.failures import failure_counts
from openenv.records.lines import append_object

__all__ = ["Collection", "left_out_failures", "limits_in"]


def left_out_failures(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the failures in lines of ``left_out.jsonl`` by kind; those of an earlier version by their reason.

    Example:
        >>> left_out_failures([{"failure": "timeout"}, {"reason": "the model failed: no answer"}, {"reward": 0.0}])
        {'timeout': 1, 'the model failed': 1}
    """
    return failure_counts(kind for line in lines if (kind := _failure_of(line)) is not None)


def limits_in(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the episodes that a limit ended, in lines of ``episodes.jsonl``, by its name.

    Example:
        >>> limits_in([{"cut_by": "max_turns"}, {"reward": 1.0}])
        {'max_turns': 1}
    """
    return dict(Counter(line["cut_by"] for line in lines if "cut_by" in line))


def _failure_of(line: Mapping[str, Any]) -> str | None:
    beginning = str(line.get("reason", "")).partition(":")[0]
    return line.get("failure") or (beginning if beginning.endswith(" failed") else None)


class Collection:
    """Recorded episodes.

    ::

        data/
          settings.json    how they were played
          episodes.jsonl   a conversation in each line
          left_out.jsonl   the episodes that are not among them, with the reason
          traces.db        every request and answer of all of them; see PlayTraces

    Each line of ``episodes.jsonl`` has ``messages`` and ``tools`` as TRL's ``SFTTrainer`` takes them, and of the
    episode its ``index``, ``environment``, ``task``, ``reward``, ``rewards``, ``length``, ``illegal_actions`` and
    ``done``. Where the environment has a rubric it also has ``reward_components``, the sums of the components' scores,
    and ``components``, the scores of each step; and ``step_rewards``, the credit of each step, where a trajectory
    rubric gives it. ``episode_id`` is there where ids were requested; ``cut_by``, the limit that ended the episode,
    ``illegal_texts``, ``cut_answers`` and ``answers_without_call`` where there are any. ``input_tokens``,
    ``output_tokens`` and ``cost_usd`` are those of the model's answers, where they are known, and ``took_s`` the
    seconds of the episode, where prices were named, as ``cpu_s``, the environment's seconds of CPU, where its server
    measures them. ``participants`` has what a user, an opponent or a judge in the environment has used, by name, as
    `ParticipantUsage`. Pictures are left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.episodes = path / "episodes.jsonl"
        self.left_out = path / "left_out.jsonl"
        self.traces = path / "traces.db"

    @classmethod
    def open(cls, path: Path, settings: Mapping[str, Any]) -> "Collection":
        """Open a folder to add to it, or begin it.

        Raises:
            ConfigurationError: The folder holds something else, or episodes that were played differently.
        """
        collection = cls(path)
        begun = collection.settings.is_file()
        collection.check_free()
        for file in (collection.episodes, collection.left_out):
            _drop_cut_line(file)
        # What never had an episode, as after a wrong address, may as well become something else.
        if begun and collection.indexes():
            collection._check_same(settings)
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_json(collection.settings, settings)
        return collection

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the line of an episode, in which the environment did not fail."""
        append_object(self.episodes, line)

    def leave_out(self, line: Mapping[str, Any], reason: str) -> None:
        """Record an episode that is not to be among them, with ``index`` and ``task``, ``reward`` or ``failure``."""
        append_object(self.left_out, {**line, "reason": reason})

    def read(self) -> list[dict[str, Any]]:
        """Return the lines of the episodes."""
        return _lines(self.episodes)

    def read_left_out(self) -> list[dict[str, Any]]:
        """Return the lines of those that are not among them."""
        return _lines(self.left_out)

    def indexes(self) -> set[int]:
        """Return the numbers of all episodes that were played."""
        return {line["index"] for line in (*self.read(), *self.read_left_out())}

    def set_aside(self) -> Path:
        """Move the lines of all episodes to a new folder in ``earlier/``, and return it; the traces stay."""
        folder = first_new_folder(self.path / "earlier" / str(number) for number in count(1))
        for file in (self.episodes, self.left_out, self.path / "results.json"):
            if file.is_file():
                file.rename(folder / file.name)
        return folder

    def check_tasks(self, tasks: Mapping[int, Mapping[str, Any]]) -> None:
        """Refuse other tasks than those of the episodes so far, as of a file that was changed.

        Raises:
            ConfigurationError: An episode of one of these numbers was played with another task.
        """
        for line in (*self.read(), *self.read_left_out()):
            task = tasks.get(line["index"])
            if task is not None and line["task"] != json.loads(json.dumps(task)):
                raise ConfigurationError(
                    f"Episode {line['index']} in {self.path} was played with the task {line['task']!r:.200}, and now "
                    f"it is {dict(task)!r:.200}. Choose another --output, or the same tasks to continue."
                )

    def check_free(self) -> None:
        """Refuse a folder that holds something else.

        Raises:
            ConfigurationError: It does.
        """
        if self.settings.is_file() or not self.path.exists():
            return
        if not self.path.is_dir() or any(self._is_other(file) for file in self.path.iterdir()):
            raise ConfigurationError(f"{self.path} is there already and holds no collection. Choose another --output.")

    def _is_other(self, file: Path) -> bool:
        """Return whether a file is none that may be there before the settings; SQLite adds some to the traces."""
        return not is_draft(file, self.settings) and not file.name.startswith(self.traces.name)

    def _check_same(self, settings: Mapping[str, Any]) -> None:
        # An earlier version had one rule for illegal answers, with the environment's own fallback.
        rule = {"illegal_answers": "fallback", "lenient": False, "fallback": settings.get("fallback")}
        before, settings = {**rule, **read_json(self.settings)}, {**rule, **settings}
        differing = [name for name in {**before, **settings} if before.get(name) != settings.get(name)]
        if differing:
            name = differing[0]
            raise ConfigurationError(
                f"The episodes in {self.path} were played with {name} {before.get(name)!r}, not "
                f"{settings.get(name)!r}. Choose another --output, or the same settings to continue."
            )


def _lines(file: Path) -> list[dict[str, Any]]:
    # Not splitlines(): text may hold other characters that Python takes for line breaks.
    lines = file.read_text("utf-8").split("\n")[:-1] if file.is_file() else []
    return [_object_of(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]


def _object_of(line: str, where: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except DocumentError as error:
        raise ConfigurationError(f"{where}: expected an episode as JSON, but {error}.") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: expected an episode as an object of JSON, got {value!r:.100}.")
    return value


def _drop_cut_line(file: Path) -> None:
    """Drop the bytes after the last line break; the episode is played again."""
    content = file.read_bytes() if file.is_file() else b""
    if content and not content.endswith(b"\n"):
        with file.open("r+b") as lines:
            lines.truncate(content.rfind(b"\n") + 1)
