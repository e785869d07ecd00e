"""Tasks about configuration files: change, add and remove settings, and leave the others alone."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from ..task_format import Check, FileCheck, JsonCheck, TerminalTask

_CHANGES = {"easy": 1, "medium": 3, "hard": 4}
_PATH = "config/app.json"


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    settings = _settings(chance)
    told, checks = [], list[Check]()
    for kind in sorted(chance.sample(range(len(_KINDS)), _CHANGES[difficulty])):
        sentence, check = _KINDS[kind](chance, settings)
        told.append(sentence)
        checks.append(check)
    changed = {check.keys for check in checks if isinstance(check, JsonCheck)}
    files = {_PATH: json.dumps(settings, indent=2) + "\n"}
    prompt = f"Change the file {_PATH}: {'; '.join(told)}. Leave all other settings as they are."
    if difficulty == "hard":
        sentence, check, text = _service(chance)
        prompt = f"{prompt} {sentence}"
        checks.append(check)
        files["config/service.ini"] = text
    checks += [
        JsonCheck(name=f"{'.'.join(map(str, keys))} as it was", path=_PATH, keys=keys, value=value, required=True)
        for keys, value in _leaves(settings)
        if not any(keys[: len(way)] == way for way in changed)
    ]
    return TerminalTask(prompt=prompt, files=files, checks=tuple(checks), family="config", difficulty=difficulty)


def _settings(chance: Random) -> dict[str, Any]:
    return {
        "server": {"host": "127.0.0.1", "port": chance.randint(8000, 8999), "workers": chance.randint(1, 4)},
        "database": {"url": "sqlite:///data/app.db", "pool": chance.randint(2, 9), "echo": True},
        "features": chance.sample(("export", "history", "search", "themes", "upload"), 3),
        "logging": {"level": chance.choice(("debug", "info")), "file": "logs/app.log"},
        "limits": {"requests": chance.randint(10, 99), "bytes": chance.randint(1000, 9999)},
    }


def _port(chance: Random, settings: dict[str, Any]) -> tuple[str, Check]:
    port = chance.randint(9000, 9999)
    return f"set server.port to {port}", JsonCheck(name="server.port", path=_PATH, keys=("server", "port"), value=port)


def _echo(chance: Random, settings: dict[str, Any]) -> tuple[str, Check]:
    check = JsonCheck(name="database.echo", path=_PATH, keys=("database", "echo"), value=False)
    return "set database.echo to false", check


def _feature(chance: Random, settings: dict[str, Any]) -> tuple[str, Check]:
    name = chance.choice(("billing", "mail", "reports"))
    value = [*settings["features"], name]
    return f'add "{name}" at the end of features', JsonCheck(
        name="features", path=_PATH, keys=("features",), value=value
    )


def _remove(chance: Random, settings: dict[str, Any]) -> tuple[str, Check]:
    key = chance.choice(("requests", "bytes"))
    check = JsonCheck(name=f"no limits.{key}", path=_PATH, keys=("limits", key), missing=True)
    return f"remove limits.{key}", check


def _level(chance: Random, settings: dict[str, Any]) -> tuple[str, Check]:
    level = chance.choice(("warning", "error"))
    check = JsonCheck(name="logging.level", path=_PATH, keys=("logging", "level"), value=level)
    return f'set logging.level to "{level}"', check


def _service(chance: Random) -> tuple[str, Check, str]:
    restart, before, after = chance.choice(("always", "never")), chance.randint(10, 30), chance.randint(31, 90)
    text = (
        f"# Read at the start.\n[service]\nname = app\ntimeout = {before}\nrestart = {restart}\n\n"
        f"[watch]\n# Seconds.\ntimeout = {before}\n"
    )
    sentence = (
        f"And in config/service.ini, set timeout of the section watch to {after}; leave its other lines, comments "
        "included, "
        "as they are."
    )
    expected = text[: text.rindex("timeout")] + f"timeout = {after}\n"
    return sentence, FileCheck(name="config/service.ini", path="config/service.ini", text=expected), text


def _leaves(value: dict[str, Any], way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, (*way, key))
        else:
            yield (*way, key), inner


_KINDS = (_port, _echo, _feature, _remove, _level)
