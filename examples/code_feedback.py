"""Train a model to write Python functions, which the environment tests in a sandbox; it may correct them twice.

python examples/code_feedback.py                              # Qwen/Qwen3-1.7B, on a GPU
python examples/code_feedback.py --model tiny --steps 3       # tried out on a CPU
python examples/code_feedback.py --url http://localhost:8000  # on a server that runs: openenv serve code_feedback
"""

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec

PROMPT = "You write Python. Hand in code that defines the function; if tests fail, correct it and hand it in again."


def main() -> None:
    """Train."""
    options = read_options(__doc__, "code_feedback")
    with EnvSpec(options.target, tasks="train", num_tasks=1000, system_prompt=PROMPT, max_turns=3) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=4096),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
