"""Train on Catch with Unsloth: its model takes the place of the one in TRL's trainer, and nothing else changes.

Needs a GPU and ``pip install unsloth path/to/openenv`` (seen with unsloth 2026.10.9), without the extra ``train``:
Unsloth chooses the version of TRL, which it holds below 1.16.

python examples/trainers/unsloth_catch.py
python examples/trainers/unsloth_catch.py --url http://localhost:8000  # on a server that runs: openenv serve catch
"""

import argparse

from unsloth import FastLanguageModel  # isort: skip  # before TRL, whose trainers it speeds up
from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec

PROMPT = "You play Catch. A ball falls from row 0 to row 9; be under it then. In each row, say where your paddle goes."
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def train(target: str, base_model: str, output: str, **settings: object) -> GRPOTrainer:
    """Train adapters of a model.

    Args:
        target: The environment's name, or the address of its server.
        base_model: The model's name or folder. Its chat template knows tools.
        output: Folder for checkpoints.
        **settings: Over the settings of the trainer below.

    Returns:
        The trainer, with what it has logged.
    """
    model, tokenizer = FastLanguageModel.from_pretrained(base_model, max_seq_length=4096, load_in_4bit=True)
    model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=32, target_modules=list(TARGETS))
    chosen = {
        "learning_rate": 1e-5,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 4,
        "num_generations": 8,
        "max_completion_length": 1024,
        "max_steps": 200,
        "logging_steps": 1,
        "report_to": "none",
    }
    with EnvSpec(target, system_prompt=PROMPT) as spec:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=GRPOConfig(output_dir=output, **{**chosen, **settings}),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        trainer.train()
    return trainer


def main() -> None:
    """Train, and keep the adapters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="unsloth/Qwen3-1.7B", help="name or folder (default: %(default)s)")
    parser.add_argument("--url", default="catch", dest="target", help="a server that runs, in place of one of its own")
    parser.add_argument("--output", default="catch-unsloth", help="folder (default: %(default)s)")
    options = parser.parse_args()
    train(options.target, options.model, options.output).save_model()


if __name__ == "__main__":
    main()
