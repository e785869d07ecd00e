"""Settings of a server, each listed once, in ``ServerConfig``.

Each field holds its default, its bound, its environment variable, its option of ``openenv serve`` and the help of that
option. A keyword argument wins over the variable, the variable over the default; only fields that traces leave out are
those of both. ``openenv serve`` and fleets pass settings on as variables, see ``environment_variables``.
"""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, Protocol, Self, TypedDict

from openenv.core.addresses import Origin, passwords_in
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.names import AUTH_ALWAYS, AUTH_NONE
from openenv.core.wire.types import ConcurrencyConfig, ServerMode

MEBIBYTE = 1024 * 1024
UNSET = object()
"""Value of a setting whose variable is not set, as ``None`` may stand for "no limit"."""
TRACED_PARTS = ("reset", "action", "observation", "metadata", "error", "messages", "tokens")
"""What the paths of fields begin with: parts of an entry, and of what a model reads and writes."""
NO_LIMIT = "none"
"""Value of a variable that stands for the keyword argument ``None``."""

Group = Literal["Sessions", "Processes", "Journal", "Traces", "Access", "Logs and telemetry"]

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_TOKEN = re.compile(r"[\x21-\x7e]+")


class ServerSettings(TypedDict, total=False):
    """Keyword arguments that build a server, beside the public ones; ``ServerConfig`` describes each.

    ``None`` is the same as an argument that is not given, unless it stands for "no limit".
    """

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
    traces: str | os.PathLike[str] | None
    traces_max_age_s: float
    traces_max_size_mb: float
    traces_sample: float
    traces_named_only: bool | None
    traces_leave_out: Sequence[str] | None
    token: str | None
    tokens: str | os.PathLike[str] | None
    auth: Literal["token", "always", "none"] | None
    allowed_hosts: Sequence[str] | None
    allowed_origins: Sequence[str] | None
    debug: bool | None
    measure_cpu: bool | None


class Kind(Protocol):
    """Kind of a setting: the values that it accepts, and their form in a variable."""

    @property
    def optional(self) -> bool:
        """Whether ``None`` is a value of its own, "no limit"."""

    def parse(self, text: str, variable: str) -> Any:
        """Read the value of a variable; ``None`` for an empty variable that counts as unset.

        Raises:
            ConfigurationError: The text is not of this kind.
        """

    def check(self, name: str, value: Any) -> Any:
        """Return a value in the form that the configuration keeps.

        Args:
            name: Name of the setting, for the message.
            value: The value, never ``None`` unless the kind is optional.

        Raises:
            ConfigurationError: The value is of another kind, or out of bounds.
        """


@dataclass(frozen=True)
class Number:
    """Number with a lower bound.

    Attributes:
        minimum: The lower bound.
        exclusive: Whether the number has to be above the bound.
        whole: Whether the number has no fraction.
        optional: Whether ``None`` and infinity stand for "no limit".
        maximum: The upper bound.
    """

    minimum: float = 0
    exclusive: bool = False
    whole: bool = False
    optional: bool = False
    maximum: float = math.inf

    def parse(self, text: str, variable: str) -> float | None:
        """See ``Kind``."""
        if self.optional and text == NO_LIMIT:
            return None
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            raise ConfigurationError(f"Expected {variable} to be {self._name}, got {text!r}.") from None

    def check(self, name: str, value: Any) -> Any:
        """See ``Kind``."""
        if value is None and self.optional:
            return None
        if not isinstance(value, int if self.whole else int | float):
            raise ConfigurationError(f"Expected {name} to be {self._name}, got {value!r}.")
        is_high_enough = value > self.minimum if self.exclusive else value >= self.minimum
        is_too_high = value > self.maximum or (value == math.inf and not self.optional)
        if not is_high_enough or is_too_high:  # NaN compares as too low
            raise ConfigurationError(f"Expected {name} to be {self._bound}got {value}.")
        return value

    @property
    def _name(self) -> str:
        return "a whole number" if self.whole else "a number"

    @property
    def _bound(self) -> str:
        bound = f"above {self.minimum}" if self.exclusive else f"{self.minimum} or above"
        if self.maximum != math.inf:
            bound = f"from {self.minimum} to {self.maximum}"
        return f"{bound}, or None for no limit; " if self.optional else f"{bound}, "


@dataclass(frozen=True)
class Flag:
    """Flag, on or off; 1 or 0 in a variable."""

    optional: bool = field(default=False, init=False)

    def parse(self, text: str, variable: str) -> bool | None:
        """See ``Kind``."""
        if text not in ("0", "1", ""):
            raise ConfigurationError(f"Expected {variable} to be 0 or 1, got {text!r}.")
        return text == "1" if text else None

    def check(self, name: str, value: Any) -> bool:
        """See ``Kind``."""
        if not isinstance(value, bool):
            raise ConfigurationError(f"Expected {name} to be True or False, got {value!r}.")
        return value


@dataclass(frozen=True)
class Choice:
    """Choice of one of a few words.

    Attributes:
        words: The words.
    """

    words: tuple[str, ...]
    optional: bool = field(default=False, init=False)

    def parse(self, text: str, variable: str) -> str | None:
        """See ``Kind``."""
        return text or None

    def check(self, name: str, value: Any) -> str:
        """See ``Kind``."""
        if value not in self.words:
            words = f"{', '.join(map(repr, self.words[:-1]))} or {self.words[-1]!r}"
            raise ConfigurationError(f"Expected {name} ({SETTINGS[name].variable}) to be {words}, got {value!r}.")
        return str(value)


@dataclass(frozen=True)
class Text:
    """Text.

    Attributes:
        check_text: Returns the normalized text, or raises ``ConfigurationError``.
    """

    check_text: Callable[[str], str]
    optional: bool = field(default=False, init=False)

    def parse(self, text: str, variable: str) -> str | None:
        """See ``Kind``."""
        return text or None

    def check(self, name: str, value: Any) -> str:
        """See ``Kind``."""
        text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
        if not isinstance(text, str):  # the value itself may be a secret
            raise ConfigurationError(f"Expected {name} to be a text, got a value of type {type(value).__name__}.")
        return self.check_text(text)


@dataclass(frozen=True)
class TextList:
    """List of texts; commas separate them in a variable.

    Attributes:
        check_text: Returns a normalized text, or raises ``ConfigurationError``.
    """

    check_text: Callable[[str], str]
    optional: bool = field(default=False, init=False)

    def parse(self, text: str, variable: str) -> Sequence[str]:
        """See ``Kind``."""
        return text.split(",")

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        """See ``Kind``."""
        if isinstance(value, str):
            raise ConfigurationError(f"Expected {name} to be a list, as in [{value!r}], got {value!r}.")
        return tuple(self.check_text(text.strip()) for text in value if text.strip())


@dataclass(frozen=True)
class Setting:
    """Setting: one field of ``ServerConfig`` with its variable, its option and its help.

    Attributes:
        name: Name of the field.
        default: Its default.
        kind: Kind of its values.
        group: Heading in the help of ``openenv serve``.
        help: Description in that help.
        keyword: Argument of ``create_app`` and of the other functions that build a server.
        variable: Environment variable.
        option: Option of ``openenv serve``; ``None`` where the command has none.
        metavar: Placeholder of the option's value in the help, where its type is not enough.
        shown_default: The default in words, where the value is not enough.
    """

    name: str
    default: Any
    kind: Kind
    group: Group
    help: str
    keyword: str
    variable: str
    option: str | None
    metavar: str | None = None
    shown_default: str | None = None

    def is_value(self, value: Any) -> bool:
        """Whether a value sets anything; ``None`` does only if it stands for "no limit"."""
        return value is not None or self.kind.optional

    def read_variable(self) -> Any:
        """Return the value of the setting's variable, unchecked; ``UNSET`` if the variable sets nothing.

        Raises:
            ConfigurationError: The variable's text is not of the setting's kind.
        """
        text = os.environ.get(self.variable)
        value = None if text is None else self.kind.parse(text, self.variable)
        return value if text is not None and self.is_value(value) else UNSET

    @property
    def default_text(self) -> str:
        """Return the default as help and documentation show it."""
        if self.shown_default is not None:
            return self.shown_default
        if self.default in (None, ()):
            return "none"
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


_DERIVED = "derived from the field's name"


def _setting(
    default: Any,
    kind: Kind,
    group: Group,
    help: str,  # noqa: A002  # the word of argparse and typer
    *,
    option: str | None = _DERIVED,
    is_secret: bool = False,
    **more: str,
) -> Any:
    """Declare a field of ``ServerConfig``."""
    metadata = {"kind": kind, "group": group, "help": help, "option": option, **more}
    return field(default=default, metadata=metadata, repr=not is_secret)


def _described(declared: "Field[Any]") -> Setting:
    """Return the setting that a field declares, with the attributes that follow from its name."""
    name, given = declared.name, dict(declared.metadata)
    given["option"] = f"--{name.replace('_', '-')}" if given["option"] is _DERIVED else given["option"]
    return Setting(
        **{"name": name, "default": declared.default, "keyword": name, "variable": f"OPENENV_{name.upper()}", **given}
    )


def check_mode(text: str) -> ServerMode:
    """Return the mode of a name.

    Raises:
        ConfigurationError: The mode is unknown.
    """
    try:
        return ServerMode(text.lower())
    except ValueError:
        raise ConfigurationError(f"Expected the mode 'simulation' or 'production', got {text!r}.") from None


def _check_token(token: str) -> str:
    if _TOKEN.fullmatch(token):
        return token
    raise ConfigurationError(
        "Expected the token (OPENENV_TOKEN) to be one or more letters, digits and signs of ASCII without spaces, since "
        "it travels in an HTTP header; it is something else."
    )


def check_field_path(path: str) -> str:
    """Return the path of a field that traces leave out.

    Raises:
        ConfigurationError: It begins with no part of an episode, or has an empty name.
    """
    names = path.split(".")
    if names[0] in TRACED_PARTS and all(names):
        return path
    raise ConfigurationError(
        f"Expected the path of a field to leave out of traces, which begins with {', '.join(TRACED_PARTS[:-1])} or "
        f"{TRACED_PARTS[-1]}, as in observation.screenshot, got {path!r}."
    )


def _check_host(host: str) -> str:
    name = host.strip("[]").lower()
    if _HOST.fullmatch(name):
        return name
    raise ConfigurationError(
        f"Expected an allowed host to be a name without scheme and port, as in env.example.com or *.example.com, got "
        f"{host!r}."
    )


def _check_origin(text: str) -> str:
    origin = Origin.parse(text)
    if origin is None:
        raise ConfigurationError(
            f"Expected an allowed origin to be a scheme, a name and perhaps a port, as in https://example.com, got "
            f"{text!r}."
        )
    return str(origin)


_COUNT = Number(1, whole=True)
_COUNT_OR_NONE = Number(1, whole=True, optional=True)
_ABOVE_0 = Number(exclusive=True)
_ABOVE_0_OR_NONE = Number(exclusive=True, optional=True)
_SECONDS = Number()
_SHARE = Number(maximum=1)


@dataclass(frozen=True)
class ServerConfig:
    """Every setting of a server. Times are in seconds; ``None`` is no limit.

    Raises:
        ConfigurationError: A value is out of bounds; the message says which.
    """

    max_sessions: int = _setting(
        1,
        _COUNT,
        "Sessions",
        "Sessions at once.",
        keyword="max_concurrent_envs",
        variable="MAX_CONCURRENT_ENVS",
        shown_default="the environment's",
    )
    idle_timeout_s: float | None = _setting(
        None,
        _ABOVE_0_OR_NONE,
        "Sessions",
        "Seconds without a request after which a session is closed.",
        keyword="concurrency_config",
        option=None,
    )
    max_sessions_per_client: int | None = _setting(
        None, _COUNT_OR_NONE, "Sessions", "Sessions at once for clients of one address."
    )
    max_messages_per_s: float | None = _setting(
        None, _ABOVE_0_OR_NONE, "Sessions", "Messages in a second over one WebSocket, or from one address over HTTP."
    )
    max_message_size_mb: float = _setting(
        16.0, _ABOVE_0, "Sessions", "Longest message that is read, in MiB.", option=None
    )
    max_wait_s: float = _setting(
        600.0, _SECONDS, "Sessions", "Seconds that a client may wait in the queue for a session."
    )
    reset_timeout_s: float | None = _setting(None, _ABOVE_0_OR_NONE, "Sessions", "Seconds that a reset may take.")
    step_timeout_s: float | None = _setting(None, _ABOVE_0_OR_NONE, "Sessions", "Seconds that a step may take.")
    resume_window_s: float = _setting(30.0, _SECONDS, "Sessions", "Seconds to keep the session of a lost connection.")
    header_timeout_s: float | None = _setting(
        20.0,
        _ABOVE_0_OR_NONE,
        "Sessions",
        "Seconds for the head of an HTTP request, or the handshake of a WebSocket.",
        option=None,
    )
    body_timeout_s: float | None = _setting(
        30.0,
        _ABOVE_0_OR_NONE,
        "Sessions",
        "Seconds for the body of an HTTP request, and one more for each KiB of it.",
        option=None,
    )
    drain_s: float = _setting(5.0, _SECONDS, "Sessions", "Seconds for episodes to end after SIGTERM.")
    isolation: Literal["none", "process"] = _setting(
        "none",
        Choice(("none", "process")),
        "Processes",
        "Process that environments run in: none for the server's, process for their own.",
    )
    sessions_per_process: int = _setting(1, _COUNT, "Processes", "With --isolation process: sessions that share one.")
    journal: str | None = _setting(
        None,
        Text(str),
        "Journal",
        "File, or database, from which sessions continue after the server was killed.",
        metavar="FILE|postgresql://...",
        is_secret=True,  # an address may hold a password
    )
    journal_max_age_s: float = _setting(
        7 * 24 * 3600.0,
        _ABOVE_0,
        "Journal",
        "Seconds for which the journal keeps sessions.",
        shown_default="a week",
    )
    journal_max_size_mb: float = _setting(1024.0, _ABOVE_0, "Journal", "MiB that the journal may take.")
    traces: str | None = _setting(
        None,
        Text(str),
        "Traces",
        "File, or database, in which every episode is kept; see openenv traces.",
        metavar="FILE|postgresql://...",
        is_secret=True,  # an address may hold a password
    )
    traces_max_age_s: float = _setting(
        30 * 24 * 3600.0, _ABOVE_0, "Traces", "Seconds for which the traces keep episodes.", shown_default="30 days"
    )
    traces_max_size_mb: float = _setting(4096.0, _ABOVE_0, "Traces", "MiB that the traces may take.")
    traces_sample: float = _setting(1.0, _SHARE, "Traces", "Share of the episodes to keep, from 0 to 1.")
    traces_named_only: bool = _setting(
        False, Flag(), "Traces", "Keep only episodes whose reset names an episode_id.", option=None
    )
    traces_leave_out: tuple[str, ...] = _setting(
        (),
        TextList(check_field_path),
        "Traces",
        "Field that the traces leave out, as observation.screenshot; may be given again.",
        metavar="PATH",
    )
    token: str | None = _setting(
        None,
        Text(_check_token),
        "Access",
        "What peers from other machines must show.",
        option=None,  # other users of the machine can read a command line
        is_secret=True,
    )
    tokens: str | None = _setting(
        None,
        Text(str),
        "Access",
        "File of named tokens with roles and limits, read again when it changes.",
        metavar="FILE",
    )
    auth: Literal["token", "always", "none"] = _setting(
        "token",
        Choice(("token", AUTH_ALWAYS, AUTH_NONE)),
        "Access",
        "Peers that need a token: those from other machines, or always, for those of this machine, too.",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        TextList(_check_host),
        "Access",
        "Further name of the server; may be given again.",
        option="--allowed-host",
    )
    allowed_origins: tuple[str, ...] = _setting(
        (),
        TextList(_check_origin),
        "Access",
        "Origin of a site whose pages may drive the server; may be given again.",
        option="--allowed-origin",
    )
    mode: ServerMode = _setting(  # noqa: RUF009  # a declaration, as the others
        ServerMode.SIMULATION, Text(check_mode), "Access", "production serves agents only.", option=None
    )
    telemetry: bool = _setting(
        False, Flag(), "Logs and telemetry", "Send OpenTelemetry traces to the address in OTEL_*."
    )
    debug: bool = _setting(False, Flag(), "Logs and telemetry", "Send clients the traceback of an environment's error.")
    measure_cpu: bool = _setting(
        False, Flag(), "Logs and telemetry", "Send the CPU seconds of an episode in the metadata of its results."
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS.values():
            value = getattr(self, setting.name)
            if value is not None or setting.default is not None:
                object.__setattr__(self, setting.name, setting.kind.check(setting.name, value))

    @classmethod
    def read(cls, settings: ServerSettings | None = None, **public: Any) -> Self:
        """Read every setting: the keyword argument, else the environment variable, else the default.

        Args:
            settings: The keyword arguments.
            **public: The public parameters, by the names of their fields: ``max_sessions``, ``idle_timeout_s`` and
                ``mode``. ``None`` counts as not given.

        Raises:
            ConfigurationError: A value is out of bounds or not of its kind, or two contradict each other.
            TypeError: There is no such keyword argument.
        """
        given = {**(settings or {}), **{name: value for name, value in public.items() if value is not None}}
        if unknown := given.keys() - SETTINGS.keys():
            raise _unknown_settings(unknown)
        values = {name: value for name, value in given.items() if SETTINGS[name].is_value(value)}
        for name in ("journal", "traces", "tokens"):
            if values.get(name) == "":  # as where its variable is empty
                del values[name]
        isolation = values.get("isolation") or os.environ.get(SETTINGS["isolation"].variable)
        if isolation != "process":
            if "sessions_per_process" in values:
                raise ConfigurationError(
                    'sessions_per_process says how to share a process; it needs isolation="process".'
                )
            values["sessions_per_process"] = cls.sessions_per_process  # its variable may be set nevertheless
        if "traces_leave_out" in values:  # who starts a server adds to what its author leaves out
            added = SETTINGS["traces_leave_out"].read_variable()
            values["traces_leave_out"] = (*values["traces_leave_out"], *(() if added is UNSET else added))
        for name, setting in SETTINGS.items():
            if name not in values and (value := setting.read_variable()) is not UNSET:
                values[name] = value
        return cls(**values)

    @classmethod
    def of_concurrency(
        cls, max_sessions: int | None, concurrency: ConcurrencyConfig | None, settings: ServerSettings
    ) -> Self:
        """Read every setting, with the two public ways to set the number of sessions.

        Args:
            max_sessions: The argument ``max_concurrent_envs``.
            concurrency: The argument ``concurrency_config``.
            settings: The other keyword arguments.

        Raises:
            ConfigurationError: Both are given; or as for ``read``.
            pydantic.ValidationError: ``max_sessions`` is below 1.
        """
        if unknown := settings.keys() - ServerSettings.__annotations__.keys():  # public parameters are no settings
            raise _unknown_settings(unknown)
        if concurrency is None:
            concurrency = ConcurrencyConfig(max_concurrent_envs=1 if max_sessions is None else max_sessions)
        elif max_sessions is not None:
            raise ConfigurationError(
                "max_concurrent_envs and concurrency_config both say how many sessions to grant; give one of them."
            )
        return cls.read(
            settings, max_sessions=concurrency.max_concurrent_envs, idle_timeout_s=concurrency.session_timeout
        )

    @property
    def environments_per_process(self) -> int | None:
        """Environments that share a process; ``None`` if all of them run in the server's own."""
        return self.sessions_per_process if self.isolation == "process" else None

    @property
    def max_message_bytes(self) -> int:
        """Longest message that is read, in bytes of UTF-8."""
        return int(self.max_message_size_mb * MEBIBYTE)

    @property
    def secrets(self) -> list[str]:
        """Secrets among the settings: the token, and the passwords of databases."""
        passwords = [password for address in (self.journal, self.traces) for password in passwords_in(address or "")]
        return passwords if self.token is None else [self.token, *passwords]

    @property
    def requires_token(self) -> bool:
        """Whether peers from other machines have to show a token."""
        return self.auth != AUTH_NONE

    @property
    def trusts_this_machine(self) -> bool:
        """Whether peers of this machine need no token."""
        return self.auth != AUTH_ALWAYS

    @property
    def admits_others(self) -> bool:
        """Whether peers from other machines may use the server: all of them, or those that show a token."""
        return self.token is not None or self.tokens is not None or not self.requires_token

    @property
    def concurrency(self) -> ConcurrencyConfig:
        """Settings of sessions in the public form."""
        return ConcurrencyConfig(max_concurrent_envs=self.max_sessions, session_timeout=self.idle_timeout_s)


SETTINGS: Mapping[str, Setting] = {declared.name: _described(declared) for declared in fields(ServerConfig)}
"""Settings by the names of their fields."""


def environment_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as environment variables, with which other processes of a server get them.

    Args:
        settings: Values by the names of their fields. ``None`` is left out unless it stands for "no limit".

    Example:
        >>> environment_variables({"drain_s": 2.5, "debug": True, "allowed_hosts": ["a", "b"], "token": None})
        {'OPENENV_DRAIN_S': '2.5', 'OPENENV_DEBUG': '1', 'OPENENV_ALLOWED_HOSTS': 'a,b'}
    """
    return {
        SETTINGS[name].variable: _text_of(value) for name, value in settings.items() if SETTINGS[name].is_value(value)
    }


def _text_of(value: Any) -> str:
    match value:
        case None:
            return NO_LIMIT
        case bool():
            return "1" if value else "0"
        case str() | int() | float() | os.PathLike():
            return str(value)
        case _:
            return ",".join(value)


def _unknown_settings(names: Set[str]) -> TypeError:
    known = ", ".join(sorted(ServerSettings.__annotations__))
    return TypeError(f"Unknown setting: {', '.join(sorted(names))}. Beside the parameters there are {known}.")
