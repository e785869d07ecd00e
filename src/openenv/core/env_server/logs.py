"""Log of a server: lines of text for people, or one JSON object per line for machines.

Records of a session have ``extra={"session": ...}`` with the ``public_name`` of its id, never the id: an id may be all
that a client needs to take over a session.
"""

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from openenv.core.variables import VariableSettings
from openenv.core.wire.redaction import without_credentials

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["critical", "error", "warning", "info", "debug"]

DEFAULT_LEVEL: LogLevel = "warning"

# Attributes of a record that become fields of the log, if the record has them.
_FIELDS = ("session", "code")
# Below warnings, these loggers write the ids of agents' connections and the messages on them.
_WITH_SECRETS = ("mcp", "sse_starlette")
# Uvicorn's warnings and errors about faults of clients, the first one with a traceback. Uvicorn logs the last one for
# denied handshakes, too.
_CLIENTS_FAULTS = (
    "Invalid UTF-8 sequence received from client.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing handshake.",
)


def log_config(level: str, form: LogFormat | None = None) -> dict[str, Any]:
    """Return the log configuration of a server process, for ``logging.config.dictConfig`` and uvicorn.

    Args:
        level: Least severe level that is written, ``debug`` to ``critical``.
        form: Format of the log. The default is text; if the program has set up logging already, its own handlers stay
            and get the server's records too.
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


class LogSettings(VariableSettings):
    """Settings of the log, as ``OPENENV_LOG_LEVEL`` and ``OPENENV_LOG_FORMAT`` name them.

    Attributes:
        level: Least severe level that is written.
        format: Format of the log.
    """

    PREFIX = "OPENENV_LOG_"

    level: LogLevel | None = None
    format: LogFormat | None = None


def follow_variables() -> None:
    """Write the log as variables say where uvicorn's own command runs the server, as in most images.

    Raises:
        ConfigurationError: A variable has another value.
    """
    settings = LogSettings.from_variables()
    if settings == LogSettings() or not logging.getLogger("uvicorn").handlers:  # which only that command adds
        return
    config = log_config(settings.level or "info", settings.format)
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error"):
        level = settings.level or logging.getLevelName(logging.getLogger(name).level)
        config["loggers"][name] = {"level": level.upper(), "handlers": [], "propagate": True}
    logging.config.dictConfig(config)


def _severity(level: str) -> int:
    return logging.getLevelNamesMapping()[level]


def of_worker(config: dict[str, Any], worker: str) -> dict[str, Any]:
    """Return the log configuration for one worker of several, whose records include its number."""
    formatters = {name: {**formatter, "worker": worker} for name, formatter in config.get("formatters", {}).items()}
    return {**config, "formatters": formatters}


class ClientsFaults(logging.Filter):
    """Filter that lowers records about faults of clients to the level ``INFO``.

    Args:
        level: Least severe level that is written.
    """

    def __init__(self, level: str) -> None:
        super().__init__()
        self._level = _severity(level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record, after correcting its level."""
        if record.name.startswith("uvicorn") and record.getMessage().startswith(_CLIENTS_FAULTS):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            record.exc_info = record.exc_text = None
        return record.levelno >= self._level


class TextFormatter(logging.Formatter):
    """Formatter of one line per record: time, level, logger, message, and further fields.

    Args:
        worker: Number of this worker, if it is one of several.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._worker = worker

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """Return the line; a traceback follows it."""
        record.message = without_credentials(record.message)
        facts = _facts(record, self._worker).items()
        shown = ", ".join(f"{name} {value}" for name, value in facts if name == "worker" or value not in record.message)
        return super().formatMessage(record) + (f" [{shown}]" if shown else "")

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's own name
        """Return a traceback."""
        return without_credentials(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object per record, in one line.

    Args:
        worker: Number of this worker, if it is one of several.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the object: ``time``, ``level``, ``logger``, ``message``, and the record's further fields."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_credentials(record.getMessage()),
            **_facts(record, self._worker),
        }
        if record.exc_info:
            fields["traceback"] = without_credentials(self.formatException(record.exc_info))
        return json.dumps(fields)


def _facts(record: logging.LogRecord, worker: str | None) -> dict[str, str]:
    facts = {name: str(getattr(record, name)) for name in _FIELDS if getattr(record, name, None)}
    return facts if worker is None else {**facts, "worker": worker}
