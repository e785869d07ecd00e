"""Train a model on Sudoku, with rewards for the solution, for the cells that are filled and for moves that are allowed.

python examples/sudoku.py                              # Qwen/Qwen3-1.7B, on a GPU
python examples/sudoku.py --model tiny --steps 3       # tried out on a CPU
python examples/sudoku.py --url http://localhost:8000  # on a server that runs: openenv serve sudoku
"""

from collections.abc import Sequence
from typing import Any

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec
from openenv.train.spec.tool_environment import ToolEnvironment

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
    options = read_options(__doc__, "sudoku")
    turns = 2 if options.is_tiny else 50
    with EnvSpec(options.target, system_prompt=PROMPT, max_turns=turns, reset={"difficulty": "very-easy"}) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=12288),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[*spec.reward_funcs, progress, allowed_moves],
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
