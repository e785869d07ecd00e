"""Folders of evaluations whose episodes were never played."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.trace_files import entries, episode, new_file

from openenv.traces import Conversation
from openenv.train.evaluation.intervals import mean_estimate


def line(index: int, task: Mapping[str, Any], reward: float, text: str = "At 0.", **others: Any) -> dict[str, Any]:
    """Make a line of ``episodes.jsonl``."""
    return {
        "index": index,
        "environment": "walk",
        "task": task,
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": f"go {index}"}],
        "tools": [],
        "reward": reward,
        "rewards": [reward],
        "length": 3,
        "illegal_actions": 1,
        "done": True,
        **others,
    }


def write_lines(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines to a file."""
    with file.open("a") as written:
        written.writelines(json.dumps(each) + "\n" for each in lines)


def write_evaluation(folder: Path, rewards: Mapping[int, Sequence[float]], text: str = "At 0.") -> Path:
    """Write the folder of an evaluation whose episodes are on record, as ``openenv eval`` does.

    Args:
        folder: The folder.
        rewards: The rewards of the attempts at the task of each seed.
        text: What the environment said.
    """
    folder.mkdir(parents=True)
    samples = len(next(iter(rewards.values())))
    settings = {"environment": "walk", "player": None, "model": "runs/mine", "samples": samples}
    (folder / "settings.json").write_text(json.dumps(settings))
    numbered = [(seed, reward) for seed, all_of_it in rewards.items() for reward in all_of_it]
    with new_file(folder / "traces.db") as traces:
        for index, (seed, reward) in enumerate(numbered):
            named = replace(episode(index, 3), seed=str(seed), reward=reward, episode_id=f"e{index}")
            said = Conversation(f"e{index}", model="mine", extra={"index": index})
            traces.add(named, entries(3, text, turn_at=2 if reward < 0.5 else None), [said])
    lines = [
        line(index, {"seed": seed}, reward, text, reward_components={"pace": reward / 2})
        for index, (seed, reward) in enumerate(numbered)
    ]
    write_lines(folder / "episodes.jsonl", lines)
    means = [sum(all_of_it) / samples for all_of_it in rewards.values()]
    results = {
        "environment": "walk",
        "player": "mine",
        "samples": samples,
        "success_reward": 1.0,
        "mean_reward": vars(mean_estimate(means)),
        "pass_at": {"1": {"value": 0.5, "low": 0.2, "high": 0.8}},
        "mean_length": 3.0,
        "illegal_actions": 0.0,
        "tasks": [
            {
                "task": {"seed": seed},
                "rewards": all_of_it,
                "successes": 0,
                "mean_reward": vars(mean_estimate(all_of_it)),
            }
            for seed, all_of_it in rewards.items()
        ],
        "temperature": 1.0,
        "greedy": None,
        "reward_components": {"pace": vars(mean_estimate([mean / 2 for mean in means]))},
    }
    (folder / "results.json").write_text(json.dumps(results))
    return folder
