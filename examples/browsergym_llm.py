"""Train a language model on tasks in a browser (MiniWoB++ in Chromium), which it reads as an accessibility tree.

    python examples/browsergym_llm.py                              # Qwen/Qwen3-0.6B, on a GPU
    python examples/browsergym_llm.py --model tiny --steps 3       # tried out on a CPU
    python examples/browsergym_llm.py --url http://localhost:8000  # on a server that runs: openenv serve browsergym

It needs a Chromium: apt-get install chromium.
"""

from collections.abc import Sequence
from typing import Any

from example_options import read_options
from trl import GRPOTrainer

from openenv.train import EnvSpec
from openenv.train.spec.tool_environment import ToolEnvironment

PROMPT = "You use a web page. Elements that can be used have an id in brackets, such as [14]. Do what the goal says."
TASKS = ["click-test", "click-button", "click-dialog", "focus-text", "enter-text"]


def economy(environments: Sequence[ToolEnvironment], **_: Any) -> list[float | None]:
    """Take a tenth for each action but the first."""
    return [-0.1 * max(0, len(page.trajectory) - 1) for page in environments]


def main() -> None:
    """Train."""
    options = read_options(__doc__, "browsergym", model="Qwen/Qwen3-0.6B")
    names = TASKS[:1] if options.is_tiny else TASKS
    tasks = [{"task_name": name, "seed": seed} for seed in range(200) for name in names]
    with EnvSpec(options.target, tasks=tasks, system_prompt=PROMPT, max_turns=5, reset={"screenshot": False}) as spec:
        trainer = GRPOTrainer(
            **options.model_settings(spec),
            args=options.grpo_config(max_completion_length=4096),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=[*spec.reward_funcs, economy],
        )
        options.train(trainer)


if __name__ == "__main__":
    main()
