"""``openenv info``: description of an environment, its actions, observations and state, and an example to copy."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from typing import Any

import typer
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from openenv.adapters.targets import find_adapted
from openenv.adapters.text import ActionText
from openenv.auto.about import About, Part, about_class, about_package, about_schemas, example_fits
from openenv.auto.discovery import find_environment
from openenv.auto.fields import FieldAbout
from openenv.auto.making import server_of
from openenv.auto.target import Target, TargetKind
from openenv.cli.options import AsJson, PlayedEnvironment
from openenv.cli.targets import read_target
from openenv.core.exceptions import ConfigurationError
from openenv.core.mcp_client import MCPToolClient
from openenv.train.agents.players import RandomPlayer

INDENT = (0, 0, 0, 2)
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")


def info(environment: PlayedEnvironment = ".", as_json: AsJson = False) -> None:
    """Describe an environment: actions, observations, reward, reset parameters, and an example to copy."""
    with redirect_stdout(sys.stderr):  # environments print while they are imported
        about = _about(environment)
    if as_json:
        typer.echo(json.dumps(about.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(about, environment, Console(highlight=False))


def _about(given: str) -> About:
    target = read_target(given, "info")
    if target.kind in (TargetKind.ADDRESS, TargetKind.IMAGE):
        return _about_server(given, target)
    if target.kind is TargetKind.ADAPTED:
        adapted = find_adapted(target)
        action = adapted.types().action
        return _with_example(about_class(adapted.name, adapted.environment_class), given, action)
    package = find_environment(target)
    about = about_package(package)
    if about.example and example_fits(about.example, package.module):
        return about
    return _with_example(replace(about, example=""), given, package.action_class())


def _about_server(given: str, target: Target) -> About:
    is_running = target.kind is TargetKind.ADDRESS
    client = MCPToolClient(**({"base_url": target.text} if is_running else {"provider": server_of(target)})).sync()
    try:
        schemas = client.schemas()
        about = about_schemas(given, schemas, [])
        if not about.actions:
            about = about_schemas(given, schemas, client.list_tools())
    finally:
        client.close()
    return _with_example(about, given, schemas["action"])


def _with_example(about: About, target: str, action: type[BaseModel] | Mapping[str, Any]) -> About:
    """Add a program that does one step: a random one, where the schema is enough to make one."""
    found = _random_step(about, action)
    if found is None:
        return about
    step, imported = found
    lines = [
        "import openenv",
        *imported,
        "",
        f"with openenv.make({json.dumps(target)}).sync() as env:",
        "    result = env.reset(seed=1)",
        f"    result = env.step({step})",
        "    print(result.observation, result.reward, result.done)",
    ]
    return replace(about, example="\n".join(lines))


def _random_step(about: About, action: type[BaseModel] | Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return a random action as code, with the lines that import its class; ``None`` where none can be made."""
    if not about.actions:
        return None
    try:
        sample = RandomPlayer(ActionText(action), seed=1)({})
    except ConfigurationError:  # its schema asks for more than a random choice
        return None
    values = sample if isinstance(sample, dict) else sample.model_dump(exclude_defaults=True)
    if isinstance(sample, dict) or not about.module:  # a client without the environment's classes takes these
        return repr(values), []
    kind = type(sample)
    fields = ", ".join(f"{name}={value!r}" for name, value in values.items())
    is_exported = getattr(import_module(about.module), kind.__name__, None) is kind
    home = about.module if is_exported else kind.__module__
    return f"{kind.__name__}({fields})", [f"from {home} import {kind.__name__}"]


def _print(about: About, target: str, console: Console) -> None:
    title = Text(about.name, style="bold cyan").append(f" {about.version}" if about.version else "", style="not bold")
    console.print(title)
    summary = _first_paragraph(about.summary or about.description)
    console.print(Text(summary))
    for part in about.actions:
        _print_part("Action", part, console, summary=summary, defaults=True)
    for part in about.tools:
        _print_part("Tool", part, console, summary=summary, defaults=True)
    if not about.actions and not about.tools:
        console.print(
            "\nIts tools are made when it runs: `openenv info URL` requests them from its server.", style="dim"
        )
    if about.observation is not None and about.observation.fields:
        _print_part("Observation", about.observation, console, summary=summary)
    _print_text("Reward", about.reward, console)
    _print_text("End", about.end, console)
    if about.reset:
        _print_heading("Reset", "", console)
        _print_indented(_fields_table(about.reset, defaults=True), console)
    if about.state is not None and about.state.fields:
        _print_part("State", about.state, console, summary=summary)
    _print_text("Player", about.player, console)
    _print_example(about, target, console)
    if about.folder:
        console.print(f"\n{about.module}, in {about.folder}", style="dim", soft_wrap=True)


def _print_part(kind: str, part: Part, console: Console, *, summary: str, defaults: bool = False) -> None:
    """Print a part, without a description that is shown above it and, unless they are useful, without defaults."""
    _print_heading(kind, part.name, console)
    description = _first_paragraph(part.description)
    if description and description != summary:
        _print_indented(Text(description), console)
    if part.fields:
        _print_indented(_fields_table(part.fields, defaults=defaults), console)


def _fields_table(fields: Sequence[FieldAbout], *, defaults: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    for field in fields:
        about = Text(field.values, style="green", overflow="fold")
        if defaults and not field.required and field.default not in (None, ""):
            about.append(f", by default {json.dumps(field.default, ensure_ascii=False)}", style="dim")
        if field.description:
            about.append(f"  {_first_paragraph(field.description)}", style="default")
        table.add_row(Text(field.name, style="bold"), about)
    return table


def _print_text(heading: str, text: str, console: Console) -> None:
    if text:
        _print_heading(heading, "", console)
        paragraph = _first_paragraph(text)
        begins_with_code = text.startswith("`")
        _print_indented(Text(paragraph if begins_with_code else paragraph[0].upper() + paragraph[1:]), console)


def _first_paragraph(text: str) -> str:
    """Return the first paragraph on one line, without marks of code and without the addresses of links."""
    return _LINK.sub(r"\1", " ".join(text.strip().split("\n\n")[0].split())).replace("`", "")


def _print_indented(content: RenderableType, console: Console) -> None:
    console.print(Padding(content, INDENT, expand=False))


def _print_heading(heading: str, name: str, console: Console) -> None:
    console.print(Text(f"\n{heading}", style="bold").append(f"  {name}" if name else "", style="cyan not bold"))


def _print_example(about: About, target: str, console: Console) -> None:
    if not about.example:
        return
    served = f"while `openenv serve {target}` runs" if "http://localhost:8000" in about.example else ""
    _print_heading("Example", served, console)
    # Neither indented nor broken, so that it can be copied.
    code = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(about.example)
    console.print(code, soft_wrap=True, end="")
