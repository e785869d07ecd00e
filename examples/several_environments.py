"""Train a model on Wordle and Catch in one run.

Each row of the dataset says which environment it is for, and the model sees the tools of that one. Each environment has
a reward function, which gives ``None`` for episodes of the other, so that each counts only where it applies.

    python several_environments.py                              # Qwen/Qwen3-1.7B, on a GPU
    python several_environments.py --model tiny --steps 3       # tried out on a CPU
    python several_environments.py --url http://localhost:8000 http://localhost:8001
"""

import argparse

from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec, EnvSpecs
from openenv.train.agents.tiny_tool_model import tiny_tool_model

WORDLE = "You play Wordle. Guess a word with each call of the tool, until you have found the secret one."
CATCH = "You play Catch. A ball falls from row 0 to row 9; be under it then. In each row, say where your paddle goes."


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-1.7B", help="name or folder; 'tiny' to try it on a CPU")
    parser.add_argument(
        "--url", nargs=2, default=["wordle", "catch"], metavar=("WORDLE_URL", "CATCH_URL"), dest="targets"
    )
    parser.add_argument("--steps", type=int, default=200, help="optimiser steps")
    parser.add_argument("--output", default="several-model", help="folder for checkpoints and the model")
    options = parser.parse_args()
    is_tiny = options.model == "tiny"
    settings = GRPOConfig(  # for one GPU of 80 GB, or a tiny model on a CPU
        output_dir=options.output,
        max_steps=options.steps,
        learning_rate=1e-3 if is_tiny else 1e-6,
        gradient_accumulation_steps=1 if is_tiny else 8,
        num_generations=4 if is_tiny else 8,
        max_completion_length=2048,
        shuffle_dataset=False,  # the rows of both are interleaved, so that each step has some of both
        chat_template_kwargs={"enable_thinking": False},
        activation_checkpointing=not is_tiny,
        use_cpu=is_tiny,
        bf16=not is_tiny,
        logging_steps=1,
        report_to="none",
    )
    wordle, catch = options.targets
    specs = EnvSpecs(
        {"wordle": EnvSpec(wordle, system_prompt=WORDLE, max_turns=6), "catch": EnvSpec(catch, system_prompt=CATCH)}
    )
    with specs:
        model, tokenizer = tiny_tool_model(list(specs.specs.values())) if is_tiny else (options.model, None)
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings,
            train_dataset=specs.train_dataset,
            environment_factory=specs.environment_factory,
            reward_funcs=specs.reward_funcs,
        )
        trainer.train()
        trainer.save_model()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    print(f"mean reward {log[0]['reward']:+.3f} in the first step, {log[-1]['reward']:+.3f} in the last")  # noqa: T201


if __name__ == "__main__":
    main()
