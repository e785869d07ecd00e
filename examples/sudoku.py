"""Train a model on Sudoku, with rewards for the solution, for the cells that are filled and for moves that are allowed.

python sudoku.py                              # Qwen/Qwen3-1.7B, on a GPU
python sudoku.py --model tiny --steps 3       # tried out on a CPU
python sudoku.py --url http://localhost:8000  # on a server that runs: openenv serve sudoku
"""

import argparse
from collections.abc import Sequence
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec, ToolEnvironment
from openenv.train.agents.tiny_tool_model import tiny_tool_model

PROMPT = "You solve a Sudoku, one digit at a time. Begin with the cells where only one digit can be."


def progress(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Give the share of the cells to fill that are filled; ``None`` where the environment failed."""
    return [None if game.error else signal(game, "sudoku.progress") for game in environments]


def allowed_moves(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Give the share of the moves that went to empty cells; ``None`` where there was no move."""
    return [1 - game.illegal_actions / len(game.trajectory) if game.trajectory else None for game in environments]


def signal(game: ToolEnvironment, name: str) -> float:
    """Read one of the signals that the environment sends beside its reward."""
    return float(game.metadata.get("reward_signals", {}).get(name, 0.0))


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-1.7B", help="name or folder; 'tiny' to try it on a CPU")
    parser.add_argument("--url", default="sudoku", dest="target", help="address of a server that runs")
    parser.add_argument("--steps", type=int, default=200, help="optimiser steps")
    parser.add_argument("--output", default="sudoku-model", help="folder for checkpoints and the model")
    options = parser.parse_args()
    is_tiny = options.model == "tiny"
    settings = GRPOConfig(  # for one GPU of 80 GB, or a tiny model on a CPU
        output_dir=options.output,
        max_steps=options.steps,
        learning_rate=1e-3 if is_tiny else 1e-6,
        gradient_accumulation_steps=1 if is_tiny else 8,
        num_generations=4 if is_tiny else 8,
        max_completion_length=12288,
        chat_template_kwargs={"enable_thinking": False},
        activation_checkpointing=not is_tiny,
        use_cpu=is_tiny,
        bf16=not is_tiny,
        logging_steps=1,
        report_to="none",
    )
    turns = 2 if is_tiny else 50
    with EnvSpec(options.target, system_prompt=PROMPT, max_turns=turns, reset={"difficulty": "very-easy"}) as spec:
        model, tokenizer = tiny_tool_model([spec]) if is_tiny else (options.model, None)
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[*spec.reward_funcs, progress, allowed_moves],
        )
        trainer.train()
        trainer.save_model()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    print(f"mean reward {log[0]['reward']:+.3f} in the first step, {log[-1]['reward']:+.3f} in the last")  # noqa: T201


if __name__ == "__main__":
    main()
