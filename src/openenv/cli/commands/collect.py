"""``openenv collect``: episodes of a player or a model, as conversations to train on."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openenv.cli.groups import command_app
from openenv.cli.hub import is_interactive, show_progress_to_people_only
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
from openenv.cli.targets import check_server, played_environment
from openenv.core.documents import DocumentError, parse_json
from openenv.core.exceptions import ConfigurationError
from openenv.hub.names import checked_repo_id

if TYPE_CHECKING:
    from openenv.hub.client import Hub
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
EpisodeIdPrefix = Annotated[
    str | None,
    typer.Option(metavar="PREFIX", help="Name the episodes PREFIX-000000 and so on, in their lines and the traces."),
]
DatasetConfig = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="Object that every reset is passed as dataset_config, beside --reset."),
]
PushToHub = Annotated[
    str | None,
    typer.Option(
        "--push-to-hub", "-H", metavar="OWNER/NAME", help="Dataset on the Hub that the episodes are pushed to."
    ),
]
Private = Annotated[bool, typer.Option("--private", help="Only you and your organization see that dataset.")]
CommitMessage = Annotated[
    str | None, typer.Option(help="What the commit of --push-to-hub says.  [default: the number of episodes]")
]
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
    episode_id_prefix: EpisodeIdPrefix = None,
    dataset_config: DatasetConfig = None,
    push_to_hub: PushToHub = None,
    private: Private = False,
    commit_message: CommitMessage = None,
) -> None:
    """Play episodes with a scripted player or a model, and keep their conversations to train on."""
    console = Console()
    address = model_address(provider, llm_endpoint, llm_port)
    settings = play_settings(
        environment=played_environment(environment, "collect", base_url),
        player=player or ("scripted" if provider == SCRIPTED and address is None else None),
        base_url=base_url,
        model=model,
        llm_endpoint=address,
        tasks=tasks,
        reset=_reset(reset or [], dataset_config),
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
    check_server(base_url)
    hub = _hub_for(push_to_hub, {"--private": private, "--commit-message": commit_message})
    collecting = import_module("openenv.train.dataset.collecting")
    try:
        result = collecting.collect(
            settings,
            episodes,
            output,
            min_reward=min_reward,
            episode_id_prefix=episode_id_prefix,
            sessions=sessions,
            console=console,
        )
    except KeyboardInterrupt:
        console.print(f"Interrupted. The same command goes on; what it has is in {quote(str(output))}.", soft_wrap=True)
        raise
    _show(result, console)
    if push_to_hub is not None and hub is not None:
        _push(result, hub, push_to_hub, message=commit_message, private=private)


app = command_app("collect", collect)
"""The command as an application of its own, for programs."""


def _reset(items: list[str], dataset_config: str | None) -> dict[str, Any] | None:
    """Return what every reset is passed, of both options.

    Raises:
        ConfigurationError: They say what can't be read, or the same twice.
    """
    reset = read_reset(items)
    if dataset_config is None:
        return reset or None
    if "dataset_config" in reset:
        raise ConfigurationError("--reset has a dataset_config, and so has --dataset-config; leave one out.")
    try:
        config = parse_json(dataset_config)
    except DocumentError as error:
        raise ConfigurationError(f"--dataset-config {dataset_config!r}: expected JSON, but {error}.") from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"--dataset-config {dataset_config!r}: expected an object of JSON.")
    return {**reset, "dataset_config": config}


def _hub_for(repo_id: str | None, others: Mapping[str, object]) -> "Hub | None":
    """Log in to the Hub before anything is played; ``None`` if nothing is to be pushed there.

    Raises:
        ConfigurationError: It is no name of a dataset, or there is none and other options for it.
        HubError: There is no account.
    """
    if repo_id is None:
        given = [name for name, value in others.items() if value]
        if given:
            raise ConfigurationError(f"{given[0]} is for --push-to-hub OWNER/NAME, which is not given.")
        return None
    checked_repo_id(repo_id, owner_needed=True)
    from openenv.hub.client import Hub  # with its library, which takes long

    show_progress_to_people_only()
    hub = Hub()
    hub.log_in(may_prompt=is_interactive())
    return hub


def _push(result: "CollectResult", hub: "Hub", repo_id: str, *, message: str | None, private: bool) -> None:
    from openenv.hub.datasets import push_dataset  # with the Hub's library, as above

    message = message or f"Add {result.kept} collected episodes"
    page = push_dataset(result.collection.episodes, repo_id, hub, message=message, private=private)
    typer.echo(f"Pushed them to {page}")


def _show(result: "CollectResult", console: Console) -> None:
    mean = "" if result.mean_reward is None else f", mean reward {result.mean_reward:+.3f}"
    where = f": {result.collection.episodes}" if result.kept else ""
    lines = [f"{result.kept} episodes{mean}{where}"]
    if result.below or result.failed:
        left_out = f"{result.below} for their reward, {result.failed} in which the environment failed"
        lines.append(f"left out: {left_out}: {result.collection.left_out}")
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)
