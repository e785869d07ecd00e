"""Transcripts: what an environment answers to the actions of recorded episodes, and which lines of its code then run.

Run as a program, this module records the episodes of an environment, or plays recorded ones with a mutant of it.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn

from openenv.auto.discovery import find_environment
from openenv.auto.making import in_process_provider
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import Target
from openenv.core.client.blocking import Attempt
from openenv.core.exceptions import OpenEnvError
from openenv.train.agents.players import RandomToolPlayer
from openenv.validation.run_process import ProcessOptions, ended_in_time, program_process
from openenv.validation.semantic.episodes import Action, play_actions
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.package import graded_package
from openenv.validation.trials import Client, RunLimits, action_fields, differences

MAX_ACTIONS, RANDOM_EPISODES, RANDOM_STEPS = 100, 10, 40


@dataclass(frozen=True)
class Played:
    """Episode of a transcript.

    Attributes:
        task: Arguments of its reset.
        actions: The actions.
    """

    task: Mapping[str, Any]
    actions: list[Action]


@dataclass(frozen=True)
class Transcript:
    """Answers of an environment.

    Attributes:
        episodes: The episodes.
        answers: All answers to each of them, and last what the server declares.
        lines: Lines that ran, by the file as seen from the environment's folder; only of a recorded one.
    """

    episodes: list[Played]
    answers: list[Any]
    lines: Mapping[str, list[int]]


def record(folder: Path, limits: RunLimits, limit_s: float, options: ProcessOptions) -> Transcript | None:
    """Record the episodes of an environment; ``None`` where its process does not end in time, or ends too early."""
    return _transcript(folder, [], limits, limit_s, options)


def replay(
    folder: Path, episodes: list[Played], limits: RunLimits, limit_s: float, options: ProcessOptions
) -> list[Any] | None:
    """Return the answers to recorded episodes; ``None`` where the process does not end in time, or ends too early."""
    transcript = _transcript(folder, episodes, limits, limit_s, options)
    return None if transcript is None else transcript.answers


def paths_of_differences(left: list[Any], right: list[Any]) -> set[str]:
    """Return the fields in which answers differ, each with its episode and step."""
    return {path for path, _ in differences(left, right)}


def _transcript(
    folder: Path, episodes: list[Played], limits: RunLimits, limit_s: float, options: ProcessOptions
) -> Transcript | None:
    with TemporaryDirectory(prefix="openenv-validate-") as temporary:
        given, output = Path(temporary) / "episodes.json", Path(temporary) / "transcript.json"
        given.write_text(json.dumps([asdict(each) for each in episodes]), encoding="utf-8")
        arguments = (str(folder), json.dumps(asdict(limits)), str(given), str(output))
        with program_process(__name__, arguments, options) as process:
            if not ended_in_time(process, limit_s, options.stop):
                return None
        try:
            content = json.loads(output.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it ended before it wrote all
            return None
    return Transcript([Played(**each) for each in content["episodes"]], content["answers"], content["lines"])


class _RunLines:
    """Lines of an environment's folder that run in this process, but for those of its players."""

    def __init__(self, folder: Path) -> None:
        self._prefix = f"{folder}{os.sep}"
        self._found: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Note the lines of this thread and of all that are started."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def by_file(self) -> dict[str, list[int]]:
        """Return the lines by their files."""
        files = sorted({file for file, _ in self._found})
        return {file: sorted(line for each, line in self._found if each == file) for file in files}

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        # A player is called in a thread of this class.
        if not path.startswith(self._prefix) or isinstance(threading.current_thread(), Attempt):
            return None
        self._found.add((path.removeprefix(self._prefix), frame.f_lineno))
        return self._trace


def _recorded(graded: GradedEnvironment) -> Iterator[Played]:
    """Play with the scripted player, with its actions on other tasks, and at random; all actions are kept."""
    scripted = [(dict(each.task), each.actions[:MAX_ACTIONS]) for each in graded.oracle if each.actions]
    for task, actions in scripted:
        yield Played(task, [*actions, actions[-1]])
    for (task, _), (_, actions) in zip(scripted[1:], scripted, strict=False):
        yield Played(task, actions)
    for number in range(RANDOM_EPISODES):
        task = dict(graded.tasks[number % len(graded.tasks)])
        yield Played(task, _random_actions(graded.client, task, RandomToolPlayer(graded.tools, seed=number)))


def _random_actions(client: Client, task: Mapping[str, Any], player: RandomToolPlayer) -> list[Action]:
    actions = list[Action]()
    with suppress(OpenEnvError):
        result = client.reset(**task)
        while not result.done and len(actions) < RANDOM_STEPS:
            actions.append(action_fields(player(result.observation)))
            with suppress(OpenEnvError):  # an action may be refused
                result = client.step(actions[-1])
    return actions


def _answers(client: Client, episode: Played, number: int) -> list[Any]:
    """Return the answers to an episode, and the state after it."""
    played = play_actions(client, {**episode.task, "episode_id": f"episode-{number}"}, episode.actions, past_end=True)
    if played.fault is not None:
        client.disconnect()
        return [*map(asdict, [played.first, *played.answers]), {"fault": played.fault}]
    return [*map(asdict, [played.first, *played.answers]), _declared(client.state)]


def _declared(call: Any, *arguments: Any) -> Any:
    try:
        value = call(*arguments)
    except OpenEnvError as error:
        return {"error": str(error)}
    return value if isinstance(value, dict | list | int) else value.model_dump(mode="json")


def _described(graded: GradedEnvironment) -> dict[str, Any]:
    """Return what the server declares: schemas, tools and tasks."""
    tools = [tool.model_dump(mode="json") for tool in graded.tools.tools]
    return {"schemas": _declared(graded.client.schemas), "tools": tools, "splits": graded.splits}


def _played(package: EnvironmentPackage, limits: RunLimits, episodes: list[Played]) -> dict[str, Any]:
    lines = _RunLines(package.folder)
    is_record = not episodes
    if is_record:
        lines.start()
    with graded_package(package, limits, in_process_provider(Target.of(package.target))) as graded:
        episodes = episodes or list(_recorded(graded))
        answers: list[Any] = [_answers(graded.client, each, number) for number, each in enumerate(episodes)]
        answers.append(_described(graded))
        return {
            "episodes": [asdict(each) for each in episodes],
            "answers": json.loads(json.dumps(answers, default=str).replace(str(package.folder), "")),
            "lines": lines.by_file(),
        }


def main() -> NoReturn:
    """Record or play the episodes that the command line names, and write the answers."""
    folder, limits, given, output = sys.argv[1:]
    episodes = [Played(**each) for each in json.loads(Path(given).read_text(encoding="utf-8"))]
    try:
        played = _played(find_environment(folder), RunLimits(**json.loads(limits)), episodes)
        sys.settrace(None)
        Path(output).write_text(json.dumps(played), encoding="utf-8")
    finally:
        os._exit(0)  # whatever threads the author's code has left


if __name__ == "__main__":
    main()
