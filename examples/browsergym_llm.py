"""Train a language model on tasks in a browser (MiniWoB++ in Chromium), which it reads as an accessibility tree.

    python browsergym_llm.py                              # Qwen/Qwen3-0.6B, on a GPU
    python browsergym_llm.py --model tiny --steps 3       # tried out on a CPU
    python browsergym_llm.py --url http://localhost:8000  # on a server that runs: openenv serve browsergym

It needs a Chromium: apt-get install chromium.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from openenv.train import EnvSpec, ToolEnvironment
from openenv.train.agents.tiny_tool_model import tiny_tool_model

PROMPT = "You use a web page. Elements that can be used have an id in brackets, such as [14]. Do what the goal says."
TASKS = ["click-test", "click-button", "click-dialog", "focus-text", "enter-text"]


def economy(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Take a tenth for each action but the first."""
    return [-0.1 * max(0, len(page.trajectory) - 1) for page in environments]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B", help="name or folder; 'tiny' to try it on a CPU")
    parser.add_argument("--url", default="browsergym", dest="target", help="address of a server that runs")
    parser.add_argument("--steps", type=int, default=200, help="optimiser steps")
    parser.add_argument("--output", default="browsergym-model", help="folder for checkpoints and the model")
    options = parser.parse_args()
    is_tiny = options.model == "tiny"
    settings = GRPOConfig(  # for one GPU of 80 GB, or a tiny model on a CPU
        output_dir=options.output,
        max_steps=options.steps,
        learning_rate=1e-3 if is_tiny else 1e-6,
        gradient_accumulation_steps=1 if is_tiny else 8,
        num_generations=4 if is_tiny else 8,
        max_completion_length=4096,
        chat_template_kwargs={"enable_thinking": False},
        activation_checkpointing=not is_tiny,
        use_cpu=is_tiny,
        bf16=not is_tiny,
        logging_steps=1,
        report_to="none",
    )
    names = TASKS[:1] if is_tiny else TASKS
    tasks = [{"task_name": name, "seed": seed} for seed in range(200) for name in names]
    with EnvSpec(options.target, tasks=tasks, system_prompt=PROMPT, max_turns=5, reset={"screenshot": False}) as spec:
        model, tokenizer = tiny_tool_model([spec]) if is_tiny else (options.model, None)
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[*spec.reward_funcs, economy],
        )
        trainer.train()
        trainer.save_model()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    print(f"mean reward {log[0]['reward']:+.3f} in the first step, {log[-1]['reward']:+.3f} in the last")  # noqa: T201


if __name__ == "__main__":
    main()
