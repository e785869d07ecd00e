"""Train a model on 2048. Scores grow with every merge, so the reward function takes their logarithm.

python examples/game_2048.py                              # Qwen/Qwen3-1.7B, on a GPU
python examples/game_2048.py --model tiny --steps 3       # tried out on a CPU
python examples/game_2048.py --url http://localhost:8000  # on a server that runs: openenv serve 2048
"""

import math
from collections.abc import Sequence
from typing import Any

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec
from openenv.train.spec.tool_environment import ToolEnvironment

PROMPT = "You play 2048. Slide the tiles, keep the large ones in a corner, and go on for as long as you can."


def score(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Give the logarithm of each game's points; ``None`` where the environment failed."""
    return [None if game.reward is None else math.log2(1 + game.reward) for game in environments]


def main() -> None:
    """Train."""
    options = read_options(__doc__, "2048")
    with EnvSpec(options.target, system_prompt=PROMPT, max_turns=6 if options.is_tiny else 100) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=8192),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[score],
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
