"""Train a model on blackjack against a dealer.

python examples/blackjack.py                              # Qwen/Qwen3-1.7B, on a GPU
python examples/blackjack.py --model tiny --steps 3       # tried out on a CPU
python examples/blackjack.py --url http://localhost:8000  # on a server that runs: openenv serve blackjack
"""

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec

PROMPT = "You play blackjack. Take cards or stand, until the game is over."


def main() -> None:
    """Train."""
    options = read_options(__doc__, "blackjack")
    with EnvSpec(options.target, system_prompt=PROMPT) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=1024),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
