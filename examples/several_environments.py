"""Train a model on Wordle and Catch in one run.

Each row of the dataset says which environment it is for, and the model sees the tools of that one. Each environment has
a reward function, which gives ``None`` for episodes of the other, so that each counts only where it applies.

    python examples/several_environments.py                              # Qwen/Qwen3-1.7B, on a GPU
    python examples/several_environments.py --model tiny --steps 3       # tried out on a CPU
    python examples/several_environments.py --url http://localhost:8000 http://localhost:8001
"""

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec, EnvSpecs

WORDLE = "You play Wordle. Guess a word with each call of the tool, until you have found the secret one."
CATCH = "You play Catch. A ball falls from row 0 to row 9; be under it then. In each row, say where your paddle goes."


def main() -> None:
    """Train."""
    options = read_options(__doc__, "wordle", "catch")
    wordle, catch = options.targets
    specs = EnvSpecs(
        {"wordle": EnvSpec(wordle, system_prompt=WORDLE, max_turns=6), "catch": EnvSpec(catch, system_prompt=CATCH)}
    )
    with specs:
        trainer = GRPOTrainer(
            **options.model_settings(*specs.specs.values()),
            # The rows of both are interleaved, so that each step has some of both.
            args=options.grpo_config(max_completion_length=2048, shuffle_dataset=False),
            train_dataset=specs.train_dataset,
            environment_factory=specs.environment_factory,
            reward_funcs=specs.reward_funcs,
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
