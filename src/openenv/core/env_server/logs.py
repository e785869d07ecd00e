"""How a server's log is written: as lines for people, or as a JSON object a line for machines.

Records that concern a session name it, as ``extra={"session": ...}``, by what ``sessions.public_name`` makes of its
id: a log is read by many, and an id may be all that a client needs to take a session over.
"""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from openenv.core.env_server.session_ids import AGENT_HEADER, ORS_HEADER, SESSION_HEADER, public_name

LogFormat: TypeAlias = Literal["text", "json"]

# Attributes of a record that are fields of the log where they are there.
_FIELDS = ("session", "code")
_HEADERS = ("Authorization", "Proxy-Authorization", "Cookie", "X-API-Key", SESSION_HEADER, AGENT_HEADER, ORS_HEADER)
_CREDENTIALS = frozenset(header.lower() for header in _HEADERS)
_NAMED_SESSION = re.compile(r"(session_id=)([^&\s\"']+)")
# What they log below warnings has the names of agents' connections, and what is said on them.
_WITH_SECRETS = ("mcp", "sse_starlette")
# What uvicorn makes warnings and errors of, the first one with a traceback, although a client did it. The last one it
# says of handshakes that were refused, too.
_CLIENTS_FAULTS = (
    "Invalid UTF-8 sequence received from client.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing handshake.",
)


def log_config(level: str, form: LogFormat | None = None) -> dict[str, Any]:
    """Describe the log of a server process, for ``logging.config.dictConfig`` and uvicorn.

    Args:
        level: Least severe level that is written, ``debug`` to ``critical``.
        form: How to write it. By default as text, but where the program has set up logging already, its own handlers
            stay and get the server's records too.
    """
    level = level.upper()
    config: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "loggers": {name: {"level": level} for name in ("openenv", "uvicorn")}
        | {name: {"level": max(level, "WARNING", key=_severity)} for name in _WITH_SECRETS},
    }
    if form is None and logging.getLogger().handlers:
        return config
    kind = JsonFormatter if form == "json" else TextFormatter
    config["formatters"] = {"openenv": {"()": kind}}
    config["filters"] = {"clients": {"()": ClientsFaults, "level": level}}
    config["handlers"] = {
        "stderr": {"class": "logging.StreamHandler", "formatter": "openenv", "filters": ["clients"]},
    }
    config["root"] = {"level": level, "handlers": ["stderr"]}
    return config


def _severity(level: str) -> int:
    return logging.getLevelNamesMapping()[level]


def of_worker(config: dict[str, Any], worker: str) -> dict[str, Any]:
    """Describe the same log for one worker of several, whose number its records then carry."""
    formatters = {name: {**formatter, "worker": worker} for name, formatter in config.get("formatters", {}).items()}
    return {**config, "formatters": formatters}


class ClientsFaults(logging.Filter):
    """Takes what clients do wrong for what it is: of interest, but no fault of the server's.

    Args:
        level: Least severe level that is written.
    """

    def __init__(self, level: str) -> None:
        super().__init__()
        self._level = _severity(level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write a record, once its level is right."""
        if record.name.startswith("uvicorn") and record.getMessage().startswith(_CLIENTS_FAULTS):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            record.exc_info = record.exc_text = None
        return record.levelno >= self._level


class HiddenCredentials(logging.Filter):
    """Takes credentials out of records: ``websockets`` logs each handshake's headers, at either end, when it debugs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, one of a header with credentials without them."""
        arguments = record.args
        if isinstance(arguments, tuple) and len(arguments) == 2 and str(arguments[0]).lower() in _CREDENTIALS:
            record.args = (arguments[0], "[redacted]")
        return True


class TextFormatter(logging.Formatter):
    """A line a record: time, level, logger, message, and what else there is to tell.

    Args:
        worker: Number of this worker, if it is one of several.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._worker = worker

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """Write the line; a traceback comes after it."""
        record.message = _without_ids(record.message)
        facts = _facts(record, self._worker).items()
        told = ", ".join(f"{name} {value}" for name, value in facts if name == "worker" or value not in record.message)
        return super().formatMessage(record) + (f" [{told}]" if told else "")


class JsonFormatter(logging.Formatter):
    """A JSON object a record, in one line.

    Args:
        worker: Number of this worker, if it is one of several.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Write the object: ``time``, ``level``, ``logger``, ``message``, and those further fields that there are."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_ids(record.getMessage()),
            **_facts(record, self._worker),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _facts(record: logging.LogRecord, worker: str | None) -> dict[str, str]:
    facts = {name: str(getattr(record, name)) for name in _FIELDS if getattr(record, name, None)}
    return facts if worker is None else {**facts, "worker": worker}


def _without_ids(message: str) -> str:
    """Shorten the ids of sessions in addresses, as uvicorn writes them."""
    return _NAMED_SESSION.sub(lambda found: found[1] + public_name(found[2]), message)
