"""Train a model on the echo environment, which rewards long messages: the smallest check that everything works.

python examples/echo.py                              # Qwen/Qwen3-0.6B, on a GPU
python examples/echo.py --model tiny --steps 3       # tried out on a CPU
python examples/echo.py --url http://localhost:8000  # on a server that runs: openenv serve echo
"""

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec

PROMPT = "Call the tool echo once, with the longest message that you can think of."


def main() -> None:
    """Train."""
    options = read_options(__doc__, "echo", model="Qwen/Qwen3-0.6B")
    with EnvSpec(options.target, system_prompt=PROMPT, max_turns=1) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=512),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
