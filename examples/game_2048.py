"""Train a model on 2048. Scores grow with every merge, so the reward function takes their logarithm.

python game_2048.py                              # Qwen/Qwen3-1.7B, on a GPU
python game_2048.py --model tiny --steps 3       # tried out on a CPU
python game_2048.py --url http://localhost:8000  # on a server that runs: openenv serve 2048
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec, ToolEnvironment
from openenv.train.agents.tiny_tool_model import tiny_tool_model

PROMPT = "You play 2048. Slide the tiles, keep the large ones in a corner, and go on for as long as you can."


def score(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Give the logarithm of each game's points; ``None`` where the environment failed."""
    return [None if game.reward is None else math.log2(1 + game.reward) for game in environments]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-1.7B", help="name or folder; 'tiny' to try it on a CPU")
    parser.add_argument("--url", default="2048", dest="target", help="address of a server that runs")
    parser.add_argument("--steps", type=int, default=200, help="optimiser steps")
    parser.add_argument("--output", default="2048-model", help="folder for checkpoints and the model")
    options = parser.parse_args()
    is_tiny = options.model == "tiny"
    settings = GRPOConfig(  # for one GPU of 80 GB, or a tiny model on a CPU
        output_dir=options.output,
        max_steps=options.steps,
        learning_rate=1e-3 if is_tiny else 1e-6,
        gradient_accumulation_steps=1 if is_tiny else 8,
        num_generations=4 if is_tiny else 8,
        max_completion_length=8192,
        chat_template_kwargs={"enable_thinking": False},
        activation_checkpointing=not is_tiny,
        use_cpu=is_tiny,
        bf16=not is_tiny,
        logging_steps=1,
        report_to="none",
    )
    with EnvSpec(options.target, system_prompt=PROMPT, max_turns=6 if is_tiny else 100) as spec:
        model, tokenizer = tiny_tool_model([spec]) if is_tiny else (options.model, None)
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[score],
        )
        trainer.train()
        trainer.save_model()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    print(f"mean reward {log[0]['reward']:+.3f} in the first step, {log[-1]['reward']:+.3f} in the last")  # noqa: T201


if __name__ == "__main__":
    main()
