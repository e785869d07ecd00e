"""``openenv play``: a person plays, in the terminal or in a browser."""

import os
import secrets
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from openenv.adapters.text import hidden_text_warning
from openenv.auto.discovery import find_environment
from openenv.auto.making import IN_PROCESS_OPTIONS, in_process_provider, server_of
from openenv.auto.target import PACKAGED, Target, TargetKind
from openenv.cli.key_values import read_reset
from openenv.cli.options import PlayedEnvironment, ResetParameters, TrustRemoteCode
from openenv.cli.targets import read_target
from openenv.cli.trace_filters import traces_at
from openenv.cli.views.action_choice import LIST_TOOLS, Kind, action_kinds, form_of, refuses_listing, tool_kinds
from openenv.cli.views.action_form import InputForm, QuitGameError
from openenv.cli.views.observation import missing_fields, missing_lines, observation_line, observation_view
from openenv.cli.views.picture import PictureFields, Pictures
from openenv.core.addresses import url_with_path
from openenv.core.client_types import StepResult
from openenv.core.env_server.pictures import TEXT
from openenv.core.env_server.settings import SETTINGS
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError, ServerError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.base import Provider
from openenv.core.sync_client import SyncEnvClient
from openenv.core.wire.names import TOKEN_VARIABLE
from openenv.traces import EpisodeRecord, TraceFile
from openenv.traces import open as open_traces

Seed = Annotated[int | None, typer.Option(help="Seed of the first episode; the next ones count up.  [default: random]")]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Play on this server instead of starting one.")]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Run the environment in this process, where its breakpoint() works.")
]

Web = Annotated[bool, typer.Option("--web", help="Play in a browser instead, until Ctrl-C.")]
ON_RECORD = "Continue an episode on record, in a browser"
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="File of traces, or a folder with one.",
        rich_help_panel=ON_RECORD,
    ),
]
EpisodeName = Annotated[
    str | None,
    typer.Option("--episode", metavar="ID", help="Id of the episode there, as 1-3.", rich_help_panel=ON_RECORD),
]
Step = Annotated[
    int | None,
    typer.Option(min=0, help="Step to continue from.  [default: the episode's reset]", rich_help_panel=ON_RECORD),
]


def play(
    environment: PlayedEnvironment = ".",
    seed: Seed = None,
    reset: ResetParameters = None,
    url: Url = None,
    in_process: InProcess = False,
    web: Web = False,
    from_: From = None,
    episode: EpisodeName = None,
    step: Step = None,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Play an environment yourself, in the terminal or a browser."""
    parameters = read_reset(reset or ())
    console = Console(highlight=False)
    start = _start_of(from_, episode, step, url)
    if (web or start is not None) and (parameters or seed is not None):
        raise typer.BadParameter("The page of --web has fields for the seed and the parameters; leave them out.")
    if url is None:
        target = read_target(environment, "play", trusted=trust_remote_code)
    else:
        target = read_target(url, "play --url", {TargetKind.ADDRESS})
    if web or start is not None:
        with ExitStack() as opened:
            traces, page = (None, "") if start is None else opened.enter_context(_copied(start))
            _play_in_browser(_server(target, console, in_process=in_process, traces=traces), page, console)
        return
    client = _client(_server(target, console, in_process=in_process), in_process=in_process).sync()
    try:
        with console.status("Connecting"):
            client.connect()
        game = Game(client, client.schemas(), console, parameters)
        game.play(secrets.randbelow(10_000) if seed is None else seed)
    except QuitGameError:
        console.print("Bye.", style="dim")
    finally:
        client.close()


class Game:
    """Episodes played by a person."""

    def __init__(
        self,
        client: SyncEnvClient[Any, Any, Any],
        schemas: Mapping[str, dict[str, Any]],
        console: Console,
        parameters: Mapping[str, Any],
    ) -> None:
        self._client = client
        self._parameters = parameters
        self._action_schema = schemas["action"]
        self._may_list = refuses_listing(schemas["action"])
        self._offered: list[Kind] = []
        self._form: InputForm
        self._observation_schema = schemas["observation"]
        self._console = console
        self._pictures = Pictures(client)
        self._picture_fields = PictureFields(schemas["observation"])
        self._has_warned = False

    def play(self, seed: int) -> None:
        """Play one episode after another, until the person quits.

        Raises:
            QuitGameError: The person quit.
        """
        while True:
            self._play_episode(seed)
            self._form.confirm("Enter plays again, q quits")
            seed += 1

    def _play_episode(self, seed: int) -> None:
        result = self._client.reset(seed=seed, **self._parameters)
        self._pictures.begin_episode()
        tools = tool_kinds(self._listed_tools())
        self._offer(action_kinds(self._action_schema, frozenset(tool.name for tool in tools)) + tools)
        self._warn_of_hidden_text(result.observation)
        steps, total = 0, result.reward or 0.0
        self._show(result, f"new episode, seed {seed}", total, first=True)
        while not result.done:
            action = self._form.fill()
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
        self._console.print(f"[bold]The episode is over: {total:g} in {steps} step{'s' * (steps != 1)}.[/]")

    def _warn_of_hidden_text(self, observation: Any) -> None:
        """Warn once that the text is in a field that neither a model nor a person sees."""
        warning = hidden_text_warning(observation)
        if warning is not None and not self._has_warned:
            self._has_warned = True
            self._console.print(warning, style="yellow", markup=False)

    def _listed_tools(self) -> list[dict[str, Any]]:
        """Return the tools of this episode; none where the server refuses to list them."""
        if not self._may_list:
            return []
        try:
            tools: list[dict[str, Any]] = self._client.step(LIST_TOOLS).observation.get("tools", [])
        except ServerError:
            self._may_list = False
            return []
        return tools

    def _offer(self, kinds: list[Kind]) -> None:
        """Print the possible actions, where they differ from those of the last episode."""
        if kinds != self._offered:
            self._offered, self._form = kinds, form_of(kinds, self._console)
            self._form.show_help()

    def _show(self, result: StepResult[Any], title: str, total: float, *, first: bool = False) -> None:
        facts = [title] if result.reward is None else [title, f"reward {result.reward:g}", f"total {total:g}"]
        view = self._view(result.observation, first)
        components = " · ".join(f"{name} {score:g}" for name, score in result.reward_components.items())
        shown = Group(view, Text(components, style="dim")) if components else view
        self._console.print(Panel(shown, title=" · ".join(facts), expand=False, padding=(0, 2)))

    def _view(self, observation: Mapping[str, Any], first: bool) -> RenderableType:
        """Show the observation, and below it the pictures in its fields."""
        pictures = self._picture_fields.pictures(observation)
        if not pictures:
            return self._rendered_view(observation, first)
        rest = {name: value for name, value in observation.items() if name not in pictures}
        return Group(self._rendered_view(rest, first), "", *map(self._pictures.view, pictures.values()))

    def _rendered_view(self, observation: Mapping[str, Any], first: bool) -> RenderableType:
        """Show the observation and what the environment renders.

        Where the picture is text, it replaces the observation's text, which is for models. Lines of
        that text which the first picture lacks, such as the task, are shown above it. What other observations have
        beside it goes below.
        """
        view = observation_view(observation, self._observation_schema)
        picture = self._pictures.render()
        if picture is None:
            return view
        rendered = self._pictures.view(picture)
        if picture.media_type != TEXT:
            return Group(view, "", rendered)
        if isinstance(observation.get("text"), str):
            task = missing_lines(observation["text"], rendered) if first else Text()
            return Group(task, "", rendered) if task else rendered
        beside = missing_fields(observation, rendered)
        if not beside:
            return rendered
        return Group(rendered, "", observation_line(beside) or observation_view(beside, self._observation_schema))

    def _complain(self, error: ServerError) -> None:
        refused = isinstance(error, RequestRejectedError)
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors if fault.get("loc")]
        text = "\n".join(faults) or (error.message if refused else f"The environment failed: {error.message}")
        if os.environ.get("OPENENV_DEBUG") == "1":
            text = "\n".join([text, *getattr(error, "__notes__", [])])
        self._console.print(Text.from_ansi(text, style="yellow" if refused else "red"))


class _Start(NamedTuple):
    """Step of an episode on record that is played on."""

    record: EpisodeRecord
    step: int


def _start_of(file: str | None, episode: str | None, step: int | None, url: str | None) -> _Start | None:
    """Read the options of an episode on record; ``None`` without them."""
    if file is None:
        if episode is not None or step is not None:
            raise typer.BadParameter("--episode and --step name a step of an episode in a file: add --from FILE.")
        return None
    if episode is None:
        raise typer.BadParameter(f"--from needs --episode with an id, as openenv traces list {file} shows them.")
    if url is not None:
        raise typer.BadParameter("--from plays on at a server that is started here; leave out --url.")
    with TraceFile(traces_at(file)) as traces:
        record = traces.record(episode)
    if (step or 0) >= len(record.entries):
        raise typer.BadParameter(f"Episode {episode} has {len(record.entries) - 1} steps, and no step {step}.")
    return _Start(record, step or 0)


@contextmanager
def _copied(start: _Start) -> Iterator[tuple[Path, str]]:
    """Yield a file of traces with the episode alone, and the query of the page that plays on from there.

    In the file that the episode is from, the server would record what is played, and remove what is old.
    """
    now = time.time()
    episode = replace(start.record.episode, started_at=now, ended_at=now)
    with TemporaryDirectory(prefix="openenv-") as folder:
        path = Path(folder) / "traces.db"
        with open_traces(path, create=True) as traces:
            name = traces.add(episode, start.record.entries, start.record.conversations)
        yield path, f"?episode={name}&step={start.step}"


def _play_in_browser(server: str | Provider, page: str, console: Console) -> None:
    """Open the page of a server, which is started here unless an address is given, and wait for Ctrl-C."""
    if isinstance(server, str):
        _open_page(server, page, console)
        return
    try:
        with console.status("Starting the server"):
            address = server.launch()
        _open_page(address, page, console)
        _print_token(server.token, console)
        console.print("Ctrl-C ends it.", style="dim")
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("Bye.", style="dim")
    finally:
        server.shut_down()


def _open_page(address: str, page: str, console: Console) -> None:
    page = f"{url_with_path(address, '/web/')}{page}"
    console.print(f"The page is at {page}", soft_wrap=True)
    webbrowser.open(page)


def _print_token(token: str | None, console: Console) -> None:
    """Print which token the page requires, if its server requires one on this machine, too."""
    if token is None:
        return
    is_known = token == os.environ.get(TOKEN_VARIABLE)
    which = f"the token that {TOKEN_VARIABLE} holds here" if is_known else f"this token: {token}"
    console.print(f"The page requires {which}", soft_wrap=True, markup=False)


def _client(server: str | Provider, *, in_process: bool) -> GenericEnvClient:
    """Make a client that speaks dicts."""
    if isinstance(server, str):
        return GenericEnvClient(base_url=server)
    return GenericEnvClient(provider=server, **(IN_PROCESS_OPTIONS if in_process else {}))


def _server(target: Target, console: Console, *, in_process: bool, traces: Path | None = None) -> str | Provider:
    """Return the address of a server or what starts one, and print the title that a manifest has."""
    if traces is not None and target.kind in (TargetKind.ADDRESS, TargetKind.IMAGE):
        raise typer.BadParameter("--from plays on at a server that is started here; name an environment.")
    if target.kind is TargetKind.ADDRESS:
        if in_process:
            raise typer.BadParameter("--in-process runs the environment here; leave out the server's address.")
        return target.text
    if target.kind in PACKAGED:
        package = find_environment(target)
        if package.description:
            console.print(f"[bold]{escape(package.name)}[/]  {escape(package.description)}")
    if in_process:
        return in_process_provider(target, traces=traces)
    return server_of(target, env_vars={} if traces is None else {SETTINGS["traces"].variable: str(traces)})
