"""``openenv collect``: episodes of a player or a model, as conversations to train on."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openenv.cli.groups import command_app
from openenv.cli.hub import is_interactive, show_progress_to_people_only
from openenv.cli.model_address import SCRIPTED, ProviderName, model_address
from openenv.cli.options import LLMPort, PlayedEnvironment, Sessions, episodes_option, folder_option, player_option
from openenv.cli.play_settings import play_options, play_settings
from openenv.cli.setting_options import with_settings
from openenv.cli.targets import played_environment, refusing
from openenv.core.documents import DocumentError, parse_json
from openenv.core.exceptions import ConfigurationError
from openenv.hub.names import checked_repo_id
from openenv.records.failures import failures_text
from openenv.train.checks import check_play

if TYPE_CHECKING:
    from openenv.hub.client import Hub
    from openenv.train.dataset.collecting import CollectResult

SETTINGS = play_options(
    {
        "model": "name of a model at --llm-endpoint, or of --provider; or a run's folder, one of its checkpoints, a "
        "model's folder, or a model of the Hub",
        "tasks": "split of the environment's tasks, or a file of them; default: seeds",
        "reset": "parameters of every reset beside its task, as in difficulty=hard",
        "max_turns": "actions after which an episode is cut off; default: 32",
        "temperature": "temperature of the model's sampling",
        "seed": "seed that tasks without a list and players derive from",
    },
)
hub_option = partial(typer.Option, rich_help_panel="Dataset on the Hub")


@with_settings(SETTINGS)
def collect(
    settings: dict[str, Any],
    environment: PlayedEnvironment,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "--output-dir",
            "-o",
            metavar="FOLDER",
            help="Folder for the episodes; those that it has count towards --episodes.",
        ),
    ],
    episodes: Annotated[
        int, typer.Option("--episodes", "--num-episodes", "-n", min=1, help="Episodes to play in all.")
    ] = 100,
    provider: Annotated[
        ProviderName | None,
        player_option(
            help="Provider of the model, whose key is in OPENAI_API_KEY or ANTHROPIC_API_KEY. With scripted no model "
            "plays.",
        ),
    ] = None,
    llm_port: LLMPort = None,
    min_reward: Annotated[float | None, folder_option(help="Keep only episodes with at least this reward.")] = None,
    keep_losses: Annotated[
        bool, typer.Option("--keep-losses", help="Keep lost episodes: has no effect, they are kept.", hidden=True)
    ] = False,
    resume: Annotated[bool, folder_option("--resume/--no-resume", help="Continue a folder that has episodes.")] = True,
    sessions: Sessions = 16,
    episode_id_prefix: Annotated[
        str | None,
        folder_option(
            metavar="PREFIX", help="Name the episodes PREFIX-000000 and so on, in their lines and the traces."
        ),
    ] = None,
    dataset_config: Annotated[
        str | None,
        episodes_option(metavar="JSON", help="Object for dataset_config of every reset, beside --reset."),
    ] = None,
    push_to_hub: Annotated[
        str | None,
        hub_option(
            "--push-to-hub", "-H", metavar="OWNER/NAME", help="Dataset on the Hub that the episodes are pushed to."
        ),
    ] = None,
    private: Annotated[bool, hub_option("--private", help="Only you and your organization see that dataset.")] = False,
    commit_message: Annotated[
        str | None, hub_option(help="Message of the commit of --push-to-hub.  [default: the number of episodes]")
    ] = None,
) -> None:
    """Play episodes with a scripted player or a model, and keep their conversations to train on."""
    console = Console()
    address = model_address(provider, settings.get("llm_endpoint"), llm_port)
    if provider == SCRIPTED and address is None:
        settings.setdefault("player", "scripted")
    reset = _reset(settings.get("reset"), dataset_config)
    played = play_settings(**{"environment": environment, **settings, "llm_endpoint": address, "reset": reset})
    if keep_losses and min_reward is not None:
        raise ConfigurationError("--keep-losses keeps every episode, and --min-reward does not; leave one out.")
    with refusing():
        check_play(played)
    played = played.model_copy(update={"environment": played_environment(environment, "collect", played.base_url)})
    if not resume and output.exists() and any(output.iterdir()):
        raise ConfigurationError(f"--no-resume needs a new folder, and {output} has files. Choose another --output.")
    hub = _hub_for(push_to_hub, {"--private": private, "--commit-message": commit_message})
    collecting = import_module("openenv.train.dataset.collecting")
    try:
        result = collecting.collect(
            played,
            episodes,
            output,
            min_reward=min_reward,
            episode_id_prefix=episode_id_prefix,
            sessions=sessions,
            console=console,
        )
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. The same command continues; its episodes are in {quote(str(output))}.", soft_wrap=True
        )
        raise
    _show(result, console)
    if push_to_hub is not None and hub is not None:
        _push(result, hub, push_to_hub, message=commit_message, private=private)


app = command_app("collect", collect)
"""The command as an application, for programs."""


def _reset(reset: Mapping[str, Any] | None, dataset_config: str | None) -> dict[str, Any] | None:
    """Return the parameters of every reset, of both options.

    Raises:
        ConfigurationError: The second one can't be read, or both are given.
    """
    reset = dict(reset or {})
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
    if result.below or result.failed or result.model_failed or result.participant_failed:
        left_out = f"{result.below} for their reward, {result.failed} in which the environment failed"
        if result.model_failed:
            left_out += f", {result.model_failed} in which the model failed"
        if result.participant_failed:
            left_out += f", {result.participant_failed} in which a participant failed"
        lines.append(f"left out: {left_out}: {result.collection.left_out}")
    lines += [f"{name}: {usage}" for name, usage in result.participants.items()]
    if result.failures:
        lines.append(f"failures: {failures_text(result.failures)}")
    if result.limits:
        lines.append("ended by " + ", ".join(f"{name}: {count}" for name, count in result.limits.items()))
    if result.answers.illegal:
        lines.append(f"illegal answers: {result.answers.illegal} of {result.answers.answers}, {result.rule}")
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)
    for warning in result.warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False, soft_wrap=True, markup=False)
