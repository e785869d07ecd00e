"""Train a model on Catch: it sees where ball and paddle are, and says where the paddle goes.

python examples/catch.py                              # Qwen/Qwen3-1.7B, on a GPU
python examples/catch.py --model tiny --steps 3       # tried out on a CPU
python examples/catch.py --url http://localhost:8000  # on a server that runs: openenv serve catch
"""

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec

PROMPT = "You play Catch. A ball falls from row 0 to row 9; be under it then. In each row, say where your paddle goes."


def main() -> None:
    """Train."""
    options = read_options(__doc__, "catch")
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
