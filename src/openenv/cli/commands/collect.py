"""``openenv collect``: episodes of a player or a model, as conversations to train on."""

from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from openenv.cli.key_values import read_reset
from openenv.cli.model_address import SCRIPTED, ProviderName, model_address
from openenv.cli.options import (
    BaseUrl,
    FormName,
    LLMEndpoint,
    LLMPort,
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

Model = Annotated[str | None, typer.Option(help="Name of a model at --llm-endpoint, or of --provider.")]
ModelProvider = Annotated[
    ProviderName | None,
    typer.Option(
        "--provider",
        help="Whose API the model is behind; its key is in OPENAI_API_KEY or ANTHROPIC_API_KEY. With scripted no model "
        "plays.",
    ),
]
Tasks = Annotated[
    str | None, typer.Option(help="A split of the environment's tasks, or a file of them.  [default: seeds]")
]
Episodes = Annotated[int, typer.Option("--episodes", "--num-episodes", "-n", min=1, help="Episodes to play in all.")]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "--output-dir", "-o", help="Folder for them; one that was begun like this is gone on with."
    ),
]
KeepLosses = Annotated[bool, typer.Option("--keep-losses", help="Keep lost episodes: has no effect, they are kept.")]
Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="Go on with a folder that has episodes.")]
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
    provider: ModelProvider = None,
    llm_endpoint: LLMEndpoint = None,
    llm_port: LLMPort = None,
    tasks: Tasks = None,
    reset: ResetParameters = None,
    min_reward: MinReward = None,
    keep_losses: KeepLosses = False,
    resume: Resume = True,
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
    address = model_address(provider, llm_endpoint, llm_port)
    settings = play_settings(
        environment=environment,
        player=player or ("scripted" if provider == SCRIPTED and address is None else None),
        base_url=base_url,
        model=model,
        llm_endpoint=address,
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
    if model is not None and address is None:
        raise ConfigurationError(
            "A model plays behind an address: give it with --llm-endpoint, as http://host:8000/v1, or name a "
            "--provider. --base-url is the address of the environment's server."
        )
    if keep_losses and min_reward is not None:
        raise ConfigurationError("--keep-losses keeps every episode, and --min-reward does not; leave one out.")
    if not resume and output.exists() and any(output.iterdir()):
        raise ConfigurationError(f"--no-resume needs a new folder, and {output} has files. Choose another --output.")
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
