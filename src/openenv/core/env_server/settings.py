"""What can be set by keyword, or in the environment, wherever a server is built."""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from openenv.core.env_server.limits import MEBIBYTE, Limits
from openenv.core.env_server.types import ConcurrencyConfig, ServerMode
from openenv.core.exceptions import ConfigurationError

DEFAULT_MAX_MESSAGE_MB = Limits.max_message_bytes / MEBIBYTE


class ServerSettings(TypedDict, total=False):
    """What can be set by keyword, beside the public parameters, wherever a server is built.

    Attributes:
        reset_observation_cls: Class of the observation after a reset, where it differs.
        reset_timeout_s: Seconds that a reset may take; ``None``, the default, for no limit.
        step_timeout_s: Seconds that a step may take; ``None``, the default, for no limit.
        resume_window_s: Seconds for which a session is kept whose client has lost its connection; 30 by default, 0 for
            none. It needs a client that speaks v1 of the wire.
        max_message_size_mb: Longest message that is read, in MiB; 16 by default.
        max_sessions_per_client: Sessions that clients from one address may have open at once; any number by default.
        max_messages_per_s: Messages that may come over one WebSocket, or from one address over HTTP, in a second; any
            number by default.
        max_wait_s: Longest time that a client may wait in line for a place, in seconds; 600 by default, 0 for none.
        header_timeout_s: Seconds within which the head of an HTTP request or the handshake of a WebSocket has to come;
            20 by default, ``None`` for any number. It needs ``serve`` or ``openenv serve``, as the next one.
        body_timeout_s: Seconds within which the body of an HTTP request has to come, and one more for each KiB of it;
            30 by default, ``None`` for any number.
        drain_s: Seconds that the episodes under way get to end once the server is told to end by SIGTERM; 5 by default,
            0 for none. It needs ``serve`` or ``openenv serve``.
        telemetry: Whether to send OpenTelemetry traces where the variables ``OTEL_*`` say; by default whether
            ``OPENENV_TELEMETRY`` is 1. It needs the extra ``telemetry``.
        isolation: ``"process"`` runs the environments in processes of their own, ``"none"`` in the server's; by default
            what ``OPENENV_ISOLATION`` says, else ``"none"``.
        sessions_per_process: With ``isolation="process"``, how many sessions share a process; by default what
            ``OPENENV_SESSIONS_PER_PROCESS`` says, else 1.
        journal: File that sessions of v1 are taken down in, so that they outlive the server's process; or, for servers
            that share it, the address of a database, ``postgresql://USER@HOST/DATABASE``. By default what
            ``OPENENV_JOURNAL`` says, else none.
        journal_max_age_s: Seconds for which the journal keeps what sessions did; a week by default.
        journal_max_size_mb: How large the journal may become, in MiB; 1024 by default. Beyond that, what ended sessions
            did is removed first.
        token: What peers from other machines must show; by default what ``OPENENV_TOKEN`` says. Without one, none of
            them is answered.
        auth: ``"none"`` asks nobody for a token; by default what ``OPENENV_AUTH`` says, else ``"token"``.
        allowed_hosts: Further names that the server is known by, as in ``["env.example.com", "*.internal"]``; by
            default what ``OPENENV_ALLOWED_HOSTS`` says, parted by commas.
        allowed_origins: Origins of other sites whose pages may drive the server, as in ``["https://example.com"]``;
            by default what ``OPENENV_ALLOWED_ORIGINS`` says, parted by commas.
        debug: Whether clients are told where an environment raised, and paths and secrets that its message has; by
            default what ``OPENENV_DEBUG`` says.
    """

    reset_observation_cls: type[BaseModel] | None
    reset_timeout_s: float | None
    step_timeout_s: float | None
    resume_window_s: float
    max_message_size_mb: float
    max_sessions_per_client: int | None
    max_messages_per_s: float | None
    max_wait_s: float
    header_timeout_s: float | None
    body_timeout_s: float | None
    drain_s: float
    telemetry: bool | None
    isolation: Literal["none", "process"] | None
    sessions_per_process: int | None
    journal: str | os.PathLike[str] | None
    journal_max_age_s: float
    journal_max_size_mb: float
    token: str | None
    auth: Literal["token", "none"] | None
    allowed_hosts: Sequence[str] | None
    allowed_origins: Sequence[str] | None
    debug: bool | None


# Limits for which an environment variable stands in, as OPENENV_DRAIN_S; ``openenv serve`` hands its options on so.
_FROM_ENVIRONMENT: dict[str, type[float] | type[int]] = {
    "reset_timeout_s": float,
    "step_timeout_s": float,
    "resume_window_s": float,
    "max_sessions_per_client": int,
    "max_messages_per_s": float,
    "max_wait_s": float,
    "header_timeout_s": float,
    "body_timeout_s": float,
    "drain_s": float,
    "journal_max_age_s": float,
    "journal_max_size_mb": float,
}


def limits_of(settings: ServerSettings, config: ConcurrencyConfig) -> Limits:
    """Read what a server grants: what is set by keyword, else by an environment variable, else by default.

    Raises:
        ConfigurationError: Some limit is too low, or an environment variable is no number.
    """
    given: dict[str, Any] = {name: settings[name] for name in _FROM_ENVIRONMENT if name in settings}  # type: ignore[literal-required]
    for name, kind in _FROM_ENVIRONMENT.items():
        text = os.environ.get(limit_variable(name))
        if name not in given and text is not None:
            given[name] = _number(text, kind, limit_variable(name))
    given["max_message_bytes"] = message_bytes(_max_message_size_mb(settings))
    return Limits(max_sessions=config.max_concurrent_envs, idle_timeout_s=config.session_timeout, **given)


def _max_message_size_mb(settings: ServerSettings) -> float:
    variable = limit_variable("max_message_size_mb")
    if "max_message_size_mb" in settings:
        return settings["max_message_size_mb"]
    text = os.environ.get(variable)
    return DEFAULT_MAX_MESSAGE_MB if text is None else _number(text, float, variable)


def limit_variable(name: str) -> str:
    """Return the environment variable that stands in for a limit.

    Example:
        >>> limit_variable("drain_s")
        'OPENENV_DRAIN_S'
    """
    return f"OPENENV_{name.upper()}"


def _number(text: str, kind: type[float] | type[int], variable: str) -> float:
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ConfigurationError(f"Expected {variable} to be {what}, got {text!r}.") from None


def concurrency(max_concurrent_envs: int | None, config: ConcurrencyConfig | None) -> ConcurrencyConfig:
    """Bring the two ways of saying how many sessions to grant into one.

    Raises:
        ConfigurationError: Both are given.
        pydantic.ValidationError: ``max_concurrent_envs`` is below 1.
    """
    if config is None:
        return ConcurrencyConfig(max_concurrent_envs=1 if max_concurrent_envs is None else max_concurrent_envs)
    if max_concurrent_envs is not None:
        raise ConfigurationError(
            "max_concurrent_envs and concurrency_config both say how many sessions to grant; give one of them."
        )
    return config


def sessions_per_process(settings: ServerSettings) -> int | None:
    """Read how many sessions are to share a process; ``None`` where all environments run in the server's own."""
    isolation = settings.get("isolation") or os.environ.get("OPENENV_ISOLATION", "none")
    if isolation not in ("none", "process"):
        raise ConfigurationError(f"Expected the isolation (OPENENV_ISOLATION) 'none' or 'process', got {isolation!r}.")
    count = settings.get("sessions_per_process")
    if isolation == "none":
        if count is not None:
            raise ConfigurationError('sessions_per_process says how to share a process; it needs isolation="process".')
        return None
    asked = os.environ.get("OPENENV_SESSIONS_PER_PROCESS", "1") if count is None else str(count)
    if not asked.isdecimal() or int(asked) < 1:
        raise ConfigurationError(
            f"Expected sessions_per_process (OPENENV_SESSIONS_PER_PROCESS) to be a number above 0, got {asked}."
        )
    return int(asked)


def journal_place(settings: ServerSettings) -> str | None:
    """Read where to keep the journal, the path of a file or the address of a database; ``None`` for nowhere."""
    place = settings.get("journal") or os.environ.get("OPENENV_JOURNAL")
    return os.fspath(place) if place else None


def wants_telemetry(settings: ServerSettings) -> bool:
    """Read whether to trace.

    Raises:
        ConfigurationError: ``OPENENV_TELEMETRY`` is neither 0 nor 1.
    """
    wanted = settings.get("telemetry")
    if wanted is not None:
        return wanted
    text = os.environ.get("OPENENV_TELEMETRY", "0")
    if text not in ("0", "1"):
        raise ConfigurationError(f"Expected OPENENV_TELEMETRY to be 0 or 1, got {text!r}.")
    return text == "1"


def debugs(settings: ServerSettings) -> bool:
    """Read whether clients are told where an environment raised.

    Raises:
        ConfigurationError: ``OPENENV_DEBUG`` is neither ``1`` nor ``0``.
    """
    debug = settings.get("debug")
    if debug is not None:
        return debug
    asked = os.environ.get("OPENENV_DEBUG") or "0"
    if asked not in ("0", "1"):
        raise ConfigurationError(f"Expected OPENENV_DEBUG to be 1 or 0, got {asked!r}.")
    return asked == "1"


def message_bytes(size_mb: float) -> int:
    """Turn the longest message from MiB into bytes.

    Raises:
        ConfigurationError: It is not above 0.
    """
    if not size_mb > 0:  # NaN included
        raise ConfigurationError(f"Expected max_message_size_mb to be above 0, got {size_mb}.")
    return int(size_mb * MEBIBYTE)


def checked_mode(mode: ServerMode | str | None) -> ServerMode:
    """Read the mode, by default what ``OPENENV_MODE`` says, else simulation.

    Raises:
        ConfigurationError: There is no such mode.
    """
    name = os.environ.get("OPENENV_MODE", ServerMode.SIMULATION) if mode is None else mode
    try:
        return ServerMode(name.lower())
    except ValueError:
        raise ConfigurationError(f"Expected the mode 'simulation' or 'production', got {name!r}.") from None
