"""Process that scores the episodes of a file of traces by the rubric of an environment, and writes the scores as JSON.

Its arguments are the environment's folder, the file of traces, and the file to write; with ``--keep`` the scores are
stored beside the episodes, too, as by ``openenv traces rescore``.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import write_json
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.exceptions import IncompleteTraceError
from openenv.core.rubrics import Rubric, TrajectoryRubric
from openenv.core.rubrics.judge import Judge
from openenv.traces.episodes import EpisodeRecord
from openenv.traces.reading import TraceFile
from openenv.traces.rescoring import score_of, scored_steps

_NAME = "rubric"


def main(folder: str, traces: str, output: str, *options: str) -> None:
    """Score the newest episode on record of each number in an evaluation."""
    package = EnvironmentPackage.from_folder(Path(folder))
    rubric = _rubric_of(package)
    scores: dict[str, dict[str, Any]] = {}
    with TraceFile(traces) as file:
        for number, record in _newest(file):
            steps = asyncio.run(scored_steps(record, rubric, package, with_rewards=False))
            scores[str(number)] = {
                "rewards": [step.reward for step in steps],
                "components": [dict(step.components) for step in steps],
                "step_rewards": _step_rewards(rubric, record),
            }
            if "--keep" in options:
                file.add_score(record.episode.id, score_of(_NAME, steps))
    write_json(Path(output), scores)


def _rubric_of(package: EnvironmentPackage) -> Rubric:
    environment = EnvironmentFactory(package.environment_class()).make()
    rubric = getattr(environment, "rubric", None)
    if not isinstance(rubric, Rubric):
        sys.exit("the environment has no rubric")
    if any(isinstance(each, Judge) for each in (rubric, *rubric.rubrics())):
        sys.exit("its rubric has a judge, whose verdicts are others each time")
    return rubric


def _newest(file: TraceFile) -> Iterator[tuple[int, EpisodeRecord]]:
    seen: set[int] = set()
    for episode in list(file.episodes()):
        conversations = file.conversations(episode.id)
        number = conversations[-1].extra.get("index") if conversations else None
        if number is None or number in seen:
            continue
        seen.add(number)
        try:
            yield number, file.record(episode.id)
        except IncompleteTraceError:
            continue


def _step_rewards(rubric: Rubric, record: EpisodeRecord) -> list[float] | None:
    """Return the credit of each step, where the rubric gives it and the episode has ended."""
    is_over = bool(record.steps) and record.steps[-1].answer.get("done") is True
    return rubric.compute_step_rewards() if isinstance(rubric, TrajectoryRubric) and is_over else None


if __name__ == "__main__":
    main(*sys.argv[1:])
