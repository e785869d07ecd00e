"""``openenv play``: a person plays in the terminal."""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from openenv.auto.discovery import find_environment
from openenv.auto.making import is_adapted, is_url
from openenv.cli.action_choice import LIST_TOOLS, Kind, action_kinds, form_of, refuses_listing, tool_kinds
from openenv.cli.action_form import ActionForm, QuitGameError
from openenv.cli.observation_view import observation_view
from openenv.core.client_types import StepResult
from openenv.core.containers.local_process import LocalProcessProvider
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError, ServerError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

Target = Annotated[str, typer.Argument(metavar="ENV", help="Name or folder of an environment, PREFIX:ID, or a URL.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the first episode; the next ones count up.  [default: random]")]
Url = Annotated[str | None, typer.Option(help="Play on this server instead of starting one.")]


def play(environment: Target = ".", seed: Seed = None, url: Url = None) -> None:
    """Play an environment yourself, in the terminal."""
    console = Console(highlight=False)
    client = _client(environment, url).sync()
    try:
        with console.status("Connecting"):
            client.connect()
        game = Game(client, client.schemas(), console)
        game.play(secrets.randbelow(10_000) if seed is None else seed)
    except QuitGameError:
        console.print("Bye.", style="dim")
    finally:
        client.close()


class Game:
    """Episodes played by a person.

    Args:
        client: A connected client that speaks dicts.
        schemas: JSON Schemas of the ``action`` and the ``observation``.
        console: Where to ask and to show what happens.
    """

    def __init__(
        self, client: SyncEnvClient[Any, Any, Any], schemas: Mapping[str, dict[str, Any]], console: Console
    ) -> None:
        self._client = client
        self._kinds = action_kinds(schemas["action"])
        self._may_list = refuses_listing(schemas["action"])
        self._offered: list[Kind] = []
        self._form: ActionForm
        self._observation_schema = schemas["observation"]
        self._console = console

    def play(self, seed: int) -> None:
        """Play one episode after another, until the person quits.

        Args:
            seed: Of the first episode.

        Raises:
            QuitGameError: The person quit.
        """
        while True:
            self._play_episode(seed)
            self._form.confirm("Enter plays again, q quits")
            seed += 1

    def _play_episode(self, seed: int) -> None:
        result = self._client.reset(seed=seed)
        self._offer(self._kinds + tool_kinds(self._listed_tools()))
        steps, total = 0, result.reward or 0.0
        self._show(result, f"new episode, seed {seed}", total)
        while not result.done:
            action = self._form.ask()
            try:
                result = self._client.step(action)
            except EpisodeOrderError as error:  # only a reset mends this
                self._complain(error)
                break
            except ServerError as error:
                self._complain(error)
                continue
            self._form.remember(action)
            steps += 1
            total += result.reward or 0.0
            self._show(result, f"step {steps}", total)
        self._console.print(f"[bold]The episode is over: {total:g} in {steps} steps.[/]")

    def _listed_tools(self) -> list[dict[str, Any]]:
        """The tools that there are for this episode; a server without any refuses to list them."""
        if not self._may_list:
            return []
        try:
            tools: list[dict[str, Any]] = self._client.step(LIST_TOOLS).observation.get("tools", [])
        except ServerError:
            self._may_list = False
            return []
        return tools

    def _offer(self, kinds: list[Kind]) -> None:
        """Say what can be done, where that is not what could be done in the last episode."""
        if kinds != self._offered:
            self._offered, self._form = kinds, form_of(kinds, self._console)
            self._form.show_help()

    def _show(self, result: StepResult[Any], title: str, total: float) -> None:
        facts = [title] if result.reward is None else [title, f"reward {result.reward:g}", f"total {total:g}"]
        view = observation_view(result.observation, self._observation_schema)
        self._console.print(Panel(view, title=" · ".join(facts), expand=False, padding=(0, 2)))

    def _complain(self, error: ServerError) -> None:
        refused = isinstance(error, RequestRejectedError)
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors if fault.get("loc")]
        text = "\n".join(faults) or (error.message if refused else f"The environment failed: {error.message}")
        self._console.print(Text.from_ansi(text, style="yellow" if refused else "red"))


def _client(environment: str, url: str | None) -> GenericEnvClient:
    if url is not None or is_url(environment):
        return GenericEnvClient(base_url=url or environment)
    served = environment if is_adapted(environment) else find_environment(environment).folder
    return GenericEnvClient(provider=LocalProcessProvider(served))
