"""Train on Catch with SkyRL's GRPO: the environment is one of SkyRL-Gym's, and SkyRL does the rest.

Needs Linux, a GPU, Python 3.12, ``pip install "skyrl[fsdp]==0.3.0" "path/to/openenv[skyrl]"``. Serve the environment
where all workers reach it, with room for every game at once, then train:

openenv serve catch --host 0.0.0.0 --max-sessions 1024
python examples/trainers/skyrl_catch.py http://my-host:8000 data/catch trainer.epochs=5

What follows the folder goes to SkyRL as it is, over the settings below.
"""

import json
import sys
from pathlib import Path

import ray
import skyrl_gym
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp, validate_cfg
from skyrl.train.utils import initialize_ray

PROMPT = (
    "You play Catch. A ball falls from row 0 to row 9; be under it then. Answer with one word: left, stay or right."
)
SETTINGS = {
    "environment.env_class": "openenv",
    "trainer.algorithm.advantage_estimator": "grpo",
    "trainer.policy.model.path": "Qwen/Qwen2.5-1.5B-Instruct",
    "trainer.logger": "console",
    "trainer.train_batch_size": 64,
    "trainer.policy_mini_batch_size": 64,
    "trainer.max_prompt_length": 512,
    "generator.max_turns": 10,
    "generator.max_input_length": 2048,
    "generator.n_samples_per_prompt": 8,
    "generator.sampling_params.max_generate_length": 16,
}


def write_tasks(url: str, folder: Path, training: int = 2048, validation: int = 64) -> dict[str, str]:
    """Write the tasks as SkyRL reads them: a row's other columns reach the environment as its ``extras``.

    Args:
        url: The environment's server.
        folder: Where the files go.
        training: How many seeds to train on.
        validation: How many further seeds to evaluate on.

    Returns:
        The settings that name the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {"train": range(training), "val": range(training, training + validation)}
    for split, chosen in seeds.items():
        rows = [
            {
                "prompt": [{"role": "system", "content": PROMPT}],
                "env_class": "openenv",
                "env_name": url,
                "reset": {"seed": seed},
            }
            for seed in chosen
        ]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return {f"data.{split}_data": f"['{folder.absolute() / f'{split}.jsonl'}']" for split in seeds}


def register() -> None:
    """Make our environments known to SkyRL-Gym; each process that makes some needs it."""
    skyrl_gym.register("openenv", "openenv.adapters.skyrl:ServedTextEnv")


@ray.remote(num_cpus=1)
def run(config: SkyRLTrainConfig) -> None:
    """Train, in a worker of Ray."""
    register()
    BasePPOExp(config).run()


def main() -> None:
    """Write the tasks and train."""
    url, folder, *overrides = sys.argv[1:]
    settings = {**SETTINGS, **write_tasks(url, Path(folder))}
    config = SkyRLTrainConfig.from_cli_overrides([*(f"{name}={value}" for name, value in settings.items()), *overrides])
    validate_cfg(config)
    initialize_ray(config)
    ray.get(run.remote(config))


if __name__ == "__main__":
    main()
