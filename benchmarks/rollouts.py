"""``python -m benchmarks.rollouts``: training on an environment whose step takes 50 ms, TRL's loop against ours.

The same model, the same prompts and the same trainer, once with ``environment_factory``, whose tool calls TRL does one
after another, and once with ``rollout_func``, which steps all environments at once. The model is tiny and was shown one
episode until it knows it by heart, so that every answer is a call; what is measured is the loop, not the model.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from benchmarks.__main__ import BUSY_LOAD, RESULTS
from benchmarks.processes import ServerProcess
from openenv.train.agents.tiny import build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.quiet import quiet_libraries
from openenv.train.tasks.task_dataset import unnumbered
from openenv.train.tools.contents import joined
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.rollout_function import RolloutFunction

TRL, OURS = "TRL's loop (environment_factory)", "ours (rollout_func)"
MESSAGE = "hello"
LEARNED = 0.01
"""The loss at which the model knows the episode by heart."""


@dataclass(frozen=True)
class Speed:
    """How fast a training went.

    Attributes:
        loop: Whose loop played the episodes.
        turn_s: Seconds for a turn of all rollouts: generation and the environments' steps, median over the batches.
        steps_per_minute: Training steps in a minute, with everything that belongs to them.
        actions: The mean number of actions in an episode, to show that both did the same.
    """

    loop: str
    turn_s: float
    steps_per_minute: float
    actions: float


class StepTimes(TrainerCallback):
    """Notes how long each training step takes."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._start = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop it."""
        self.seconds.append(time.perf_counter() - self._start)


class TimedTrainer(GRPOTrainer):
    """Notes how long the episodes of each batch take, without the training on them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.generated: list[float] = []
        super().__init__(*args, **kwargs)

    def _generate(self, prompts: list[Any]) -> Any:
        start = time.perf_counter()
        try:
            return super()._generate(prompts)
        finally:
            self.generated.append(time.perf_counter() - start)


def measure(url: str, rollouts: int, turns: int, steps: int) -> list[Speed]:
    """Train with both loops on the same server.

    Args:
        url: The server's address.
        rollouts: Episodes in each training step.
        turns: Actions in each episode.
        steps: Training steps; the first one warms up.

    Returns:
        TRL's speed and ours.
    """
    with EnvSpec(url, num_tasks=rollouts, max_turns=turns) as spec:
        model, tokenizer = _caller(spec, turns)
        ours = {"rollout_func": RolloutFunction(spec, actions="tools")}
        theirs = {"environment_factory": spec.environment_factory}
        return [
            _train(loop, spec, deepcopy(model), tokenizer, slots, rollouts, turns, steps)
            for loop, slots in ((TRL, theirs), (OURS, ours))
        ]


def _train(
    loop: str,
    spec: EnvSpec,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    slots: dict[str, Any],
    rollouts: int,
    turns: int,
    steps: int,
) -> Speed:
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder, quiet_libraries():
        trainer = TimedTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=spec.train_dataset,
            reward_funcs=[*spec.reward_funcs],
            callbacks=[times],
            args=GRPOConfig(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=rollouts,
                num_generations=2,
                max_completion_length=64 * turns,
                max_tool_calling_iterations=turns,
                learning_rate=1e-9,  # the model shall stay as it is
                use_cpu=not torch.cuda.is_available(),
                bf16=torch.cuda.is_available(),
                save_strategy="no",
                logging_steps=1,
                report_to="none",
                disable_tqdm=True,
            ),
            **slots,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    played = [row["episode/length"] for row in trainer.state.log_history if "episode/length" in row]
    return Speed(
        loop,
        turn_s=median(trainer.generated[1:]) / turns,
        steps_per_minute=60 / median(times.seconds[1:]),
        actions=sum(played) / len(played),
    )


def _caller(spec: EnvSpec, turns: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Make a model that calls the tool in every answer."""
    (tool,) = spec.tools.names
    call = {"type": "function", "function": {"name": tool, "arguments": {"message": MESSAGE}}}
    turn = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": tool, "content": MESSAGE},
    ]
    *before, last = unnumbered(spec.train_dataset[0]["prompt"])
    opening = [*before, {**last, "content": joined(last["content"], "ready")}]
    messages: Any = [*opening, *turn * (turns + 1)]
    schemas: Any = spec.tools.schemas()
    tokenizer = build_tool_tokenizer(schemas, [MESSAGE, "ready"], values=[MESSAGE])
    ids: Any = tokenizer.apply_chat_template(messages, tools=schemas, tokenize=True, return_dict=False)
    model = build_model(tokenizer, hidden=64, layers=1)
    _learn(model, torch.tensor([ids]))
    return model, tokenizer


def _learn(model: PreTrainedModel, ids: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = torch.tensor(torch.inf)
    while loss > LEARNED:
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _table(speeds: Sequence[Speed]) -> Table:
    table = Table("loop", "a turn", "training steps per minute", "actions in an episode")
    for speed in speeds:
        table.add_row(speed.loop, f"{speed.turn_s:.3f} s", f"{speed.steps_per_minute:.1f}", f"{speed.actions:.2f}")
    return table


def main(
    rollouts: Annotated[int, typer.Option(min=2, help="Episodes in each training step; an even number.")] = 64,
    turns: Annotated[int, typer.Option(min=1, help="Actions in each episode.")] = 4,
    steps: Annotated[int, typer.Option(min=2, help="Training steps; the first one is left out.")] = 4,
    output: Annotated[Path, typer.Option(help="Folder for the figures as JSON.")] = RESULTS,
) -> None:
    """Measure a training with TRL's loop and with ours, and print a table."""
    console = Console(width=max(Console().width, 110))
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        console.print(f"[yellow]This machine is busy (load {load:.1f}): everything will look slower than it is.")
    with ServerProcess(Path(sys.executable), "benchmarks.programs.serve_ours", ["--environment", "sleeping"]) as server:
        speeds = measure(server.url, rollouts, turns, steps)
    console.print(_table(speeds))
    output.mkdir(parents=True, exist_ok=True)
    figures = {
        "python": platform.python_version(),
        "load": load,
        "rollouts": rollouts,
        "turns": turns,
        "speeds": [asdict(speed) for speed in speeds],
    }
    (output / "rollouts.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)  # at this size two are slower
    typer.run(main)
