"""``openenv collect``: episodes of a player or a model, as conversations to train on."""

from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from openenv.cli.key_values import read_reset
from openenv.cli.options import (
    BaseUrl,
    FormName,
    MaxTokens,
    PlayedEnvironment,
    PlayerKind,
    ResetParameters,
    Sessions,
    StepTimeoutS,
    SystemPrompt,
    Traces,
    TracesLeaveOut,
    form_option,
    max_turns_option,
    seed_option,
    temperature_option,
)
from openenv.cli.play_settings import play_settings
from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from openenv.train.dataset.collecting import CollectResult

Model = Annotated[str | None, typer.Option(help="Name of a model at --base-url.")]
Tasks = Annotated[
    str | None, typer.Option(help="A split of the environment's tasks, or a file of them.  [default: seeds]")
]
Episodes = Annotated[int, typer.Option(min=1, help="Episodes to play in all.")]
Output = Annotated[Path, typer.Option(help="Folder for them; one that was begun like this is gone on with.")]
MinReward = Annotated[float | None, typer.Option(help="Keep only episodes with at least this reward.")]
Form = Annotated[FormName, form_option()]
MaxTurns = Annotated[int, max_turns_option()]
Temperature = Annotated[float, temperature_option()]
Seed = Annotated[int, seed_option()]


def collect(
    environment: PlayedEnvironment,
    output: Output,
    episodes: Episodes = 100,
    player: PlayerKind = None,
    model: Model = None,
    base_url: BaseUrl = None,
    tasks: Tasks = None,
    reset: ResetParameters = None,
    min_reward: MinReward = None,
    form: Form = "tools",
    system_prompt: SystemPrompt = None,
    max_turns: MaxTurns = 32,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = None,
    seed: Seed = 1,
    sessions: Sessions = 16,
    step_timeout_s: StepTimeoutS = 60.0,
    traces: Traces = True,
    traces_leave_out: TracesLeaveOut = None,
) -> None:
    """Play episodes with a scripted player or a model, and keep their conversations to train on."""
    console = Console()
    settings = play_settings(
        environment=environment,
        player=player,
        model=model,
        base_url=base_url,
        tasks=tasks,
        reset=read_reset(reset) if reset else None,
        form=form,
        system_prompt=system_prompt,
        max_turns=max_turns,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        step_timeout_s=step_timeout_s,
        traces=traces,
        traces_leave_out=tuple(traces_leave_out or ()),
    )
    if model is not None and base_url is None:
        raise ConfigurationError("A model plays behind an address: give it with --base-url, as http://host:8000/v1.")
    collecting = import_module("openenv.train.dataset.collecting")
    try:
        result = collecting.collect(
            settings, episodes, output, min_reward=min_reward, sessions=sessions, console=console
        )
    except KeyboardInterrupt:
        console.print(f"Interrupted. The same command goes on; what it has is in {quote(str(output))}.", soft_wrap=True)
        raise
    _show(result, console)


def _show(result: "CollectResult", console: Console) -> None:
    mean = "" if result.mean_reward is None else f", mean reward {result.mean_reward:+.3f}"
    where = f": {result.collection.episodes}" if result.kept else ""
    lines = [f"{result.kept} episodes{mean}{where}"]
    if result.below or result.failed:
        left_out = f"{result.below} for their reward, {result.failed} in which the environment failed"
        lines.append(f"left out: {left_out}: {result.collection.left_out}")
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)
