"""Trainings: metrics, tasks and scores, equal to the bit on a machine like the one that recorded them.

A run is the same each time with the same versions on the same kind of processor; on another one, the last digits of its
floats differ, and soon the tokens that are sampled by them.
"""

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from tests.goldens.golden import differences, stored
from tests.support.environment_folders import fresh_scaffold
from tests.support.models.chat_models import save_chat_model
from transformers import TrainerCallback

from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.records.scores import AFTER, BEFORE, RANDOM, SCRIPTED, Score
from openenv.train.run.training import train
from openenv.train.settings.config import load_config

# What ATen, oneDNN and MKL choose their kernels by.
_VECTOR_FLAGS = ("amx", "asimd", "avx", "bf16", "f16c", "fma", "i8mm", "sve")
# Metrics of ours; those of TRL's may have other names in another version.
_OWN_METRICS = ("step", "episode/")
# Fields of a score that show single episodes.
_SHOWN_EPISODES = ("sample", "sample_seed", "examples", "first_episodes")
_NAME = "run"
# Mean rewards of a short run were equal with the kernels for AVX-512, for AVX2 and for neither, and only last digits of
# other metrics differed. A token that is sampled otherwise may still turn the end of one of the eight episodes of an
# evaluation, from -1 to 1.
TOLERANCE = 0.25


def machine() -> dict[str, str]:
    """Return what decides the last digits of a training: versions, the processor and the kernels for it."""
    processor = _processor()
    flags = sorted(flag for flag in processor.get("flags", "").split() if flag.startswith(_VECTOR_FLAGS))
    return {
        **{name: version(name) for name in ("torch", "transformers", "trl")},
        "processor": processor.get("model name") or platform.processor() or platform.machine(),
        "flags": " ".join(flags),
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }


def _processor() -> dict[str, str]:
    """Return what Linux says of the first processor; nothing elsewhere."""
    file = Path("/proc/cpuinfo")
    text = file.read_text() if file.is_file() else ""
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


class _EndAfter(TrainerCallback):
    """Ends a run as Ctrl-C does, once the metrics of a step are written."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


def _nothing(folder: Path) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Training:
    """Run of which a golden is the record.

    Attributes:
        golden: Name of the golden.
        settings: The run's settings, as ``load_config`` takes them.
        prepare: Function that makes what the run needs in a folder, and returns settings that name it.
        prefix: Steps that are recorded, from the first one on; ``None`` for all of them.
        solved: Mean rewards of a run that solves its environment: the untrained model is below the first, and the
            trained model reaches the second. ``None`` for a run that is too short.
    """

    golden: str
    settings: Mapping[str, Any]
    prepare: Callable[[Path], dict[str, Any]] = _nothing
    prefix: int | None = None
    solved: tuple[float, float] | None = None

    def make(self, folder: Path) -> dict[str, Any]:
        """Run it as far as is compared: its prefix on a machine like the one that recorded it, all of it elsewhere."""
        is_whole = self.prefix is None or stored(self.golden)["machine"] != machine()
        return self._outcome(self._run(folder, None if is_whole else self.prefix))

    def record(self, folder: Path) -> dict[str, Any]:
        """Run it to its end, and check that it solved its environment, if it is to."""
        outcome = self._outcome(self._run(folder, None))
        if self.solved is not None:
            self.check_solved(outcome)
        return outcome

    def check_solved(self, outcome: Mapping[str, Any]) -> None:
        """Check that a run to the end, recorded or made now, solved its environment.

        Raises:
            AssertionError: It did not.
        """
        assert self.solved is not None
        before, after = self.solved
        scores = outcome["final scores"]
        assert scores[BEFORE]["mean_reward"] < before, scores[BEFORE]
        assert scores[AFTER]["mean_reward"] >= after, scores[AFTER]

    def differences(self, recorded: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
        """Return the lines in which a run differs: in anything on a machine like the recorded one, else in what holds.

        The scores at the end are compared by their limits alone: a prefix has none.
        """
        if recorded["machine"] != made["machine"]:
            return [*differences(_anywhere(recorded), _anywhere(made)), *self._far_apart(recorded, made)]
        return differences(*({**each, "final scores": None} for each in (recorded, made)))

    def _run(self, folder: Path, steps: int | None) -> RunFolder:
        """Train in a folder. The learning rate falls until the end, so a prefix is that of a run with all steps."""
        output = folder / "runs"
        config = load_config(**{**self.settings, **self.prepare(folder)}, output_dir=output, name=_NAME)
        run = RunFolder(output / _NAME)
        try:
            train(config, Console(file=StringIO()), [] if steps is None else [_EndAfter(steps)])
        except KeyboardInterrupt:
            if len(run.read_metrics()) != steps:  # it came from a terminal
                raise
        return run

    def _outcome(self, run: RunFolder) -> dict[str, Any]:
        """Return what is recorded of a run's folder."""
        scores = {name: _score(score) for name, score in run.read_scores().items()}
        ended = any(AFTER in name for name in scores)
        outcome = {
            "machine": machine(),
            "metrics": run.read_metrics()[: self.prefix],
            "tasks": [_tasks(line) for line in read_objects(run.rollouts)][: self.prefix],
            "warm-up": read_objects(run.warm_up / "metrics.jsonl"),
            "scores": {name: score for name, score in scores.items() if self.prefix is None or AFTER not in name},
        }
        return {**outcome, "final scores": scores} if self.prefix is not None and ended else outcome

    def _far_apart(self, recorded: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
        """Return the mean rewards that are further apart than the tolerance."""
        before, after = _mean_rewards(recorded, self.prefix is None), _mean_rewards(made, self.prefix is None)
        return [
            f"{sign} {name}: {rewards[name]} (another machine may differ by {TOLERANCE})"
            for name in sorted(before.keys() & after.keys())
            if abs(before[name] - after[name]) > TOLERANCE
            for sign, rewards in (("-", before), ("+", after))
        ]


def _score(score: Score) -> dict[str, Any]:
    kept = {name: value for name, value in asdict(score).items() if name not in _SHOWN_EPISODES}
    if not kept["failures"]:  # which no earlier version counted
        del kept["failures"]
    return kept


def _tasks(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tasks of a step's groups, and the number of its episodes."""
    groups = {episode["group"]: episode["task"] for episode in line["episodes"]}
    return {**line, "tasks": [groups[number] for number in sorted(groups)], "episodes": len(line["episodes"])}


def _anywhere(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return what holds on every machine: metrics' names, steps, tasks, numbers of episodes, other players."""
    rows = outcome["metrics"]
    scores = outcome["scores"]
    return {
        "metrics": [sorted(name for name in row if name.startswith(_OWN_METRICS)) for row in rows],
        "steps": [row["step"] for row in rows],
        "tasks": outcome["tasks"],
        "warm-up steps": [row["step"] for row in outcome["warm-up"]],
        "episodes": {name: score["episodes"] for name, score in scores.items()},
        "players": {name: score for name, score in scores.items() if name.endswith((RANDOM, SCRIPTED))},
    }


def _mean_rewards(outcome: Mapping[str, Any], is_short: bool) -> dict[str, float]:
    """Return the mean rewards of the untrained model, and in a short run those of the steps too."""
    means = {name: score["mean_reward"] for name, score in outcome["scores"].items()}
    rows = outcome["metrics"] if is_short else []
    return {**means, **{f"step {row['step']}": row["episode/reward"] for row in rows}}


def _scaffold(folder: Path) -> dict[str, Any]:
    return {"environment": str(fresh_scaffold(folder, "only_here_env"))}


def _chat_model(folder: Path) -> dict[str, Any]:
    return {"model": save_chat_model(folder / "model")}


CATCH = Training("training-catch", {"environment": "catch"}, prefix=30, solved=(0.0, 0.97))
SCAFFOLD = Training("training-scaffold", {"steps": 300}, _scaffold, prefix=30, solved=(0.3, 0.95))
EXAMPLES = Training("training-examples", {"environment": "catch", "sft": 50, "steps": 6})
TWO_ENVIRONMENTS = Training(
    "training-two-environments",
    {
        "environments": {"catch": {"environment": "catch"}, "blackjack": {"environment": "blackjack", "share": 2}},
        "steps": 4,
        "rollouts": 48,
        "eval_episodes": 20,
    },
)
CHAT_MODEL = Training(
    "training-chat-model",
    {"environment": "catch", "steps": 3, "rollouts": 16, "micro_batch": 8, "max_action_tokens": 3, "eval_episodes": 8},
    _chat_model,
)
