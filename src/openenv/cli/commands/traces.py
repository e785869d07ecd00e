"""``openenv traces``: episodes on record, listed, shown, compared, replayed and removed."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from openenv.adapters.targets import find_target
from openenv.cli.commands.traces_export import export, import_, rescore
from openenv.cli.groups import command_group
from openenv.cli.options import field_paths
from openenv.cli.setting_options import with_settings
from openenv.cli.targets import refusing
from openenv.cli.trace_filters import File, InOrder, Limit, filter_of, filters, time_of
from openenv.cli.views.conversation import answer_lines, token_lines
from openenv.cli.views.drawing import can_draw, drawn
from openenv.core.env_server.settings import SETTINGS
from openenv.core.env_server.traces.omission import names_request
from openenv.traces.by_task import TaskEpisodes, tasks
from openenv.traces.comparing import Difference, differences
from openenv.traces.conversation import parts_of
from openenv.traces.episodes import UNREADABLE, Conversation, Entry, Episode, Flag, Score
from openenv.traces.pictures import pictures_in
from openenv.traces.reading import TraceFile
from openenv.traces.replaying import replay as replay_entries

app = command_group("Look at the episodes that servers have recorded with --traces.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of an episode, as list shows it.")]
OtherId = Annotated[str, typer.Argument(metavar="OTHER", help="Id of another episode.")]
Tokens = Annotated[
    bool, typer.Option("--tokens", help="Show each token: who wrote it, with which probability, and its text.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Environment = Annotated[str | None, typer.Option("--env", help="Environment to play on.  [default: the recorded one]")]
OlderThan = Annotated[
    str | None, typer.Option(metavar="TIME", help="Remove episodes that began before 2026-11-24, or 90m, 6h, 7d ago.")
]
Pictures = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder to write the pictures of observations to.")
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Field that is not compared, as observation.took_ms; may be given again.",
        show_default=False,
        callback=field_paths,
    ),
]
WithSignal = Annotated[bool, typer.Option("--with-signal", help="Only tasks whose rewards differ.")]
MaxSizeMb = Annotated[
    float | None, typer.Option(min=0, help="Remove the oldest until the rest has at most so many MiB.")
]

GivenLabel = Annotated[str | None, typer.Argument(metavar="LABEL", help="Label: good, bad or another word.")]
Note = Annotated[str | None, typer.Option(help="Text of the note.")]

_LONGEST_SHOWN = 300
# Episodes whose flags are read together.
_PAGE = 100


@app.command("list")
@with_settings(filters())
def list_episodes(
    settings: dict[str, Any], file: File, order: InOrder = "newest", limit: Limit = 50, as_json: AsJson = False
) -> None:
    """List episodes, by default newest first."""
    with TraceFile(file) as traces:
        found = traces.episodes(filter_of(settings), limit or None, order=order)
        while page := list(islice(found, _PAGE)):
            flags = traces.flags([episode.id for episode in page])
            for episode in page:
                marks = flags.get(episode.id, [])
                typer.echo(
                    json.dumps({**_fields(episode), "flags": marks}) if as_json else _printable(_line(episode, marks))
                )


@app.command()
def show(file: File, episode: Id, pictures: Pictures = None, tokens: Tokens = False, as_json: AsJson = False) -> None:
    """Show an episode, request by request.

    Words of the model that are other than its action stand beside it. On a terminal with colours its pictures are
    shown, too.
    """
    if as_json and (pictures is not None or tokens):
        where, option = ("observations", "--pictures") if pictures is not None else ("conversations", "--tokens")
        raise typer.BadParameter(f"--json has all that is in the {where}; leave out {option}.")
    console = Console(highlight=False)
    draws = not as_json and can_draw(console)
    with TraceFile(file) as traces:
        found = traces.episode(episode)
        typer.echo(json.dumps(_fields(found)) if as_json else _heading(found))
        for score in traces.scores(episode):
            typer.echo(
                json.dumps({"score": _fields(score)}) if as_json else _printable(f"score {score.name}: {score.text}")
            )
        conversations = list(traces.conversations(episode))
        for conversation in conversations:
            typer.echo(json.dumps({"conversation": _fields(conversation)}) if as_json else _summary(conversation))
            for line in token_lines(conversation) if tokens else ():
                typer.echo(_printable(line))
        messages = conversations[-1].messages if conversations and not as_json else ()
        brief = list(traces.entries(episode, long_values=False)) if messages else []
        parts = parts_of(messages, brief)
        for number, entry in enumerate(traces.entries(episode)):
            typer.echo(json.dumps(_fields(entry)) if as_json else _shown(number, entry))
            for line in answer_lines(parts[number], messages) if parts else ():
                typer.echo(f"  {_short(line)}")
            for line in _keep_pictures(entry, pictures):
                typer.echo(line)
            if draws:
                _draw_pictures(entry, console)
        for line in chain.from_iterable(answer_lines(part, messages) for part in parts[len(brief) :]):
            typer.echo(f"\n  {_short(line)}")


@app.command()
def label(file: File, episode: Id, label: GivenLabel = None, note: Note = None) -> None:
    """Give an episode a label and a note, and remove those that it had."""
    with TraceFile(file) as traces:
        traces.label(episode, label, note)


@app.command()
def diff(file: File, episode: Id, other: OtherId, leave_out: LeaveOut = None) -> None:
    """Compare two episodes, request by request. Ends with status 1 if they differ."""
    with TraceFile(file) as traces:
        compared = differences(traces.entries(episode), traces.entries(other), leave_out or ())
        _report(list(compared), episode, other)


@app.command()
def replay(file: File, episode: Id, env: Environment = None, leave_out: LeaveOut = None) -> None:
    """Play an episode's actions again on a fresh environment. Ends with status 1 if an answer differs."""
    with TraceFile(file) as traces:
        found = traces.episode(episode)
        entries = list(traces.entries(episode))
    for setting in ("traces", "journal"):  # the replay is no episode of its own
        os.environ.pop(SETTINGS[setting].variable, None)
    with refusing():
        target = find_target(env or found.environment)
    app = target.app()
    _report(replay_entries(entries, app, leave_out or ()), "on record", "replayed")


@app.command("tasks")
@with_settings(filters("environment", "split", "since"))
def list_tasks(settings: dict[str, Any], file: File, with_signal: WithSignal = False, as_json: AsJson = False) -> None:
    """List the tasks of episodes with their rewards. With --json as openenv train --tasks takes them."""
    with TraceFile(file) as traces:
        for task in tasks(traces, filter_of(settings), with_signal=with_signal):
            typer.echo(json.dumps(task.task) if as_json else _printable(_task_line(task)))


@app.command()
def prune(file: File, older_than: OlderThan = None, max_size_mb: MaxSizeMb = None) -> None:
    """Remove the oldest episodes, but for those that run now."""
    if older_than is None and max_size_mb is None:
        raise typer.BadParameter("Expected --older-than or --max-size-mb, by which episodes are removed.")
    with TraceFile(file) as traces:
        max_bytes = None if max_size_mb is None else max_size_mb * 1024 * 1024
        removed = traces.prune(before=time_of(older_than, "--older-than"), max_bytes=max_bytes)
    typer.echo(f"Removed {removed} episodes.")


app.command()(export)
app.command("import")(import_)
app.command()(rescore)


def _keep_pictures(entry: Entry, folder: Path | None) -> Iterator[str]:
    """Write the pictures of an observation, each under its hash, and iterate over the names of their files."""
    if folder is None:
        return
    for picture in pictures_in(entry.observation):
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{sha256(picture.content).hexdigest()[:16]}{picture.suffix}"
        file.write_bytes(picture.content)
        yield f"  {picture.path}: {file}"


def _draw_pictures(entry: Entry, console: Console) -> None:
    """Draw the pictures of an observation, but for those that can't be read."""
    for picture in pictures_in(entry.observation):
        drawing = drawn(picture.content, console.width)
        if drawing is not None:
            console.print(drawing)


def _report(compared: list[Difference], first: str, second: str) -> None:
    for step in compared:
        result = "same" if step.same else f"DIFFERS: {', '.join(step.parts)}"
        typer.echo(f"{step.number:>4} {step.kind:<5} {result}{_left_out(step.left_out)}")
        if not step.same:
            typer.echo(f"       {first}: {_answer_of(step.first)}\n       {second}: {_answer_of(step.second)}")
    different = sum(not step.same for step in compared)
    typer.echo(f"{len(compared) - different} of {len(compared)} are the same.")
    if different and any(names_request(path) for step in compared for path in step.left_out):
        typer.echo("Fields of requests are not on record: a replay may differ for their lack alone.")
    if different:
        raise typer.Exit(1)


def _left_out(paths: Sequence[str]) -> str:
    return f"  (left out: {', '.join(paths)})" if paths else ""


def _summary(conversation: Conversation) -> str:
    read, written = conversation.input_tokens, conversation.output_tokens
    tokens = "" if read is None and written is None else f", {read} tokens read, {written} written"
    return f"conversation: {_printable(str(conversation.model))}, {len(conversation.messages)} messages{tokens}"


def _fields(of: Episode | Entry | Score | Conversation) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of)}


def _line(episode: Episode, flags: Sequence[Flag]) -> str:
    if episode.ending == UNREADABLE:
        return f"{episode.id:<12} {UNREADABLE}: {episode.error}"
    score = episode.reward if episode.component is None else episode.component
    reward = "" if score is None else f"{score:+.3f}"
    task = _task_of(episode)
    notes = ["evaluation"] if episode.is_evaluation else []
    notes += [] if episode.token_name is None else [f"token {episode.token_name}"]
    notes += [] if episode.label is None else [f"label {_printable(episode.label)}"]
    notes += [episode.error or flag if flag == "error" else flag.replace("_", " ") for flag in flags]
    return (
        f"{episode.id:<12} {_clock(episode.started_at)} {episode.environment:<20} {task:<20} "
        f"{episode.steps:>5} steps {reward:>9} {episode.ending}{''.join(f'  {note}' for note in notes)}"
    )


def _task_line(task: TaskEpisodes) -> str:
    named = " ".join(f"{name}={value}" for name, value in task.task.items())
    rewards = ""
    if task.mean_reward is not None:
        rewards = f"{task.min_reward:+.3f} to {task.max_reward:+.3f}, mean {task.mean_reward:+.3f}"
    failed = f", {task.failed} failed" if task.failed else ""
    return f"{task.environment:<20} {named:<30} {task.episodes:>6} episodes{failed}  {rewards}"


def _task_of(episode: Episode) -> str:
    named = {"split": episode.split, "index": episode.index, "seed": episode.seed}
    return " ".join(f"{name}={value}" for name, value in named.items() if value is not None)


def _heading(episode: Episode) -> str:
    known = {name: value for name, value in _fields(episode).items() if value is not None}
    known["started_at"] = _clock(episode.started_at)
    if episode.ended_at is not None:
        known["ended_at"] = _clock(episode.ended_at)
    return "\n".join(_printable(f"{name}: {value}") for name, value in known.items())


def _shown(number: int, entry: Entry) -> str:
    request = _short(json.dumps(entry.request, ensure_ascii=False))
    took = f"({entry.took_s * 1000:.1f} ms)"
    return f"\n{number} {entry.kind} {request}  {took}{_left_out(entry.left_out)}\n  {_answer_of(entry)}"


def _answer_of(entry: Entry | None) -> str:
    return "nothing" if entry is None else _short(json.dumps(entry.answer, ensure_ascii=False))


def _short(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}... ({len(text)} characters)"


def _printable(text: str) -> str:
    """Return a text without control characters, which a terminal would carry out."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
