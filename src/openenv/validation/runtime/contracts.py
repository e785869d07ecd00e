"""Plan of the runtime level, what a provider starts, and the evidence that is collected.

The plan is a file of the package, ``validation/runtime.json``: the reset of the episode, and the actions that are sent.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, field_validator

from openenv.core.documents import open_regular
from openenv.core.exceptions import ConfigurationError
from openenv.validation.manifest import ExecutionDeclaration, NetworkPolicy, ResourceDeclaration

MAX_PLAN_BYTES = 65_536
"""Bytes of a runtime plan."""
MAX_PLAN_ACTIONS = 100
"""Actions of a runtime plan."""
MAX_JSON_DEPTH = 32
"""Levels of lists and objects in a runtime plan."""
MAX_JSON_NODES = 10_000
"""Values in a runtime plan, lists and objects included."""

_LARGEST_SEED = 2**32 - 1
_MAX_VARIABLES = 64
_LONGEST_VALUE_BYTES = 8192
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_RESET = ("episode_id", "seed")


class RuntimePlanError(ValueError):
    """A package's runtime plan is missing or invalid; the message has what was expected."""


class _Contract(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RuntimeReset(BaseModel):
    """Reset of the planned episode.

    Attributes:
        episode_id: Name of the episode, which the server's state has to return.
        seed: Seed of the episode.
        options: Further parameters of ``reset``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    episode_id: str = Field(min_length=1, max_length=128)
    seed: int = Field(ge=0, le=_LARGEST_SEED)
    options: dict[str, Any] = {}

    @field_validator("options")
    @classmethod
    def _own_names(cls, options: dict[str, Any]) -> dict[str, Any]:
        repeated = [name for name in _OF_RESET if name in options]
        if repeated:
            raise ValueError(f"options may not contain {' or '.join(repeated)}; these are fields of reset itself")
        return options


class RuntimePlan(BaseModel):
    """Planned episode.

    Attributes:
        plan_schema_version: Version of this form.
        reset: The episode's reset.
        actions: Actions, sent in this order until the episode ends.

    Example:
        >>> plan = RuntimePlan.model_validate(
        ...     {"plan_schema_version": "1", "reset": {"episode_id": "probe", "seed": 7}, "actions": [{"action_id": 0}]}
        ... )
        >>> plan.reset.seed, plan.actions
        (7, [{'action_id': 0}])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan_schema_version: Literal["1"]
    reset: RuntimeReset
    actions: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_PLAN_ACTIONS)


def load_runtime_plan(root: Path, execution: ExecutionDeclaration) -> RuntimePlan:
    """Read the runtime plan of a package.

    Args:
        root: The package's folder.
        execution: The package's declaration, which has the path of the plan.

    Returns:
        The plan.

    Raises:
        RuntimePlanError: The plan is missing, outside of the package, too large, or invalid.

    Example:
        >>> load_runtime_plan(Path("envs/catch_env"), ExecutionDeclaration())  # doctest: +SKIP
        RuntimePlan(plan_schema_version='1', reset=RuntimeReset(episode_id='probe-1', seed=7, ...
    """
    document = _parsed(_text(root, execution.probe_path))
    _check_size(document)
    try:
        return RuntimePlan.model_validate(document)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)]
        raise RuntimePlanError(f"runtime plan schema validation failed: {'; '.join(lines)}") from error


def _text(root: Path, probe_path: str) -> str:
    try:
        folder = root.resolve(strict=True)
        file = (folder / probe_path).resolve(strict=True)
        if not file.is_relative_to(folder):
            raise RuntimePlanError(
                f"invalid runtime plan: {probe_path} leads out of the package; copy the file into it"
            )
        with open_regular(file) as stream:
            content = stream.read(MAX_PLAN_BYTES + 1)
    except (OSError, RuntimeError, ConfigurationError) as error:  # RuntimeError: a loop of links
        cause = error.__cause__ or error
        raise RuntimePlanError(f"runtime plan could not be read ({type(cause).__name__})") from error
    if len(content) > MAX_PLAN_BYTES:
        raise RuntimePlanError(f"invalid runtime plan: expected at most {MAX_PLAN_BYTES} bytes, but it is longer")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuntimePlanError("runtime plan contains invalid text encoding") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RuntimePlanError(f"invalid runtime plan JSON at {where}: {error.msg}") from error
    except RecursionError as error:
        raise RuntimePlanError(f"invalid runtime plan: {_TOO_DEEP}") from error
    except ValueError as error:  # also of numbers with too many digits
        raise RuntimePlanError(f"invalid runtime plan: {error}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in an object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected finite numbers, got {name}")


_TOO_DEEP = f"expected values at most {MAX_JSON_DEPTH} levels deep"


def _check_size(document: Any) -> None:
    """Check depth and number of values, and that every number is finite and every text has a form in UTF-8."""
    for count, (value, depth) in enumerate(_nodes(document), 1):
        if depth > MAX_JSON_DEPTH:
            raise RuntimePlanError(f"invalid runtime plan: {_TOO_DEEP}")
        if count > MAX_JSON_NODES:
            raise RuntimePlanError(f"invalid runtime plan: expected at most {MAX_JSON_NODES} values")
        if isinstance(value, float) and not math.isfinite(value):
            raise RuntimePlanError("invalid runtime plan: expected finite numbers, got one that no float can hold")
        if isinstance(value, str) and not value.isascii():
            _check_text(value)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RuntimePlanError("runtime plan contains invalid text encoding") from error


def _nodes(document: Any) -> Iterator[tuple[Any, int]]:
    """Iterate over all values of a document and the keys of its objects, with their depth."""
    left = [(document, 1)]
    while left:
        value, depth = left.pop()
        yield value, depth
        if isinstance(value, Mapping):
            left += [(each, depth + 1) for pair in value.items() for each in pair]
        elif isinstance(value, list):
            left += [(each, depth + 1) for each in value]


class LaunchSpec(_Contract):
    """Server that a provider has started.

    Attributes:
        image_ref: The image, by its digest, as ``build`` of the provider has returned it.
        resources: Limits of the subject.
        network: Network that the subject may use.
        run_id: Name of the run, of which the subject's own is made.
        startup_timeout_s: Seconds until the server has to be healthy.
        env_vars: Environment variables of the server.

    Example:
        >>> LaunchSpec(
        ...     image_ref="sha256:" + "0" * 64,
        ...     resources=ResourceDeclaration(cpu=1, memory_mb=512, disk_mb=64, episode_timeout_s=60),
        ...     network=NetworkPolicy(mode="no-network"),
        ...     run_id="run-1",
        ... ).startup_timeout_s
        30.0
    """

    image_ref: str = Field(pattern=r"^(?:[^@\s]+@)?sha256:[0-9a-f]{64}$")
    resources: ResourceDeclaration
    network: NetworkPolicy
    run_id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    startup_timeout_s: float = Field(default=30.0, gt=0, le=300)
    env_vars: dict[str, str] = Field(default={}, max_length=_MAX_VARIABLES)

    @field_validator("env_vars")
    @classmethod
    def _valid_variables(cls, variables: dict[str, str]) -> dict[str, str]:
        for name, value in variables.items():
            if _VARIABLE.fullmatch(name) is None:
                raise ValueError(f"expected names of letters, digits and underscores, got {name!r}")
            if "\0" in value:
                raise ValueError(f"the value of {name} contains a zero byte")
            if len(value.encode("utf-8", "surrogatepass")) > _LONGEST_VALUE_BYTES:
                raise ValueError(f"the value of {name} is longer than {_LONGEST_VALUE_BYTES} bytes")
        return variables


@dataclass(frozen=True)
class WireExchange:
    """Request and answer, as they were on the wire.

    Attributes:
        operation: The request's kind.
        request_json: The frame that was sent.
        response_json: The frame that came.
    """

    operation: Literal["reset", "step", "state"]
    request_json: str
    response_json: str


@dataclass(frozen=True)
class RuntimeEvidence:
    """Answers of a server in one planned episode.

    Attributes:
        exchanges: Requests and answers, in their order.
        observation_schema_json: Schema of observations, as the server publishes it; ``None`` where it has none.
        failure_phase: The phase that ended the collection too early: ``schema``, ``connect`` or an operation.
        failure_reason: Its reason.
        reset_observation_schema_json: Schema of what ``reset`` returns, where the server publishes another one.
    """

    exchanges: tuple[WireExchange, ...] = ()
    observation_schema_json: str | None = None
    failure_phase: str | None = None
    failure_reason: str | None = None
    reset_observation_schema_json: str | None = None


class ProbeOutcome(_Contract):
    """Outcome of an attempt to reach a sink.

    Attributes:
        result: Whether the sink was reached; ``inconclusive`` where the attempt could not be made.
        errno: Number of the error, if there was one.
    """

    result: Literal["reachable", "denied", "inconclusive"]
    errno: int | None = None


class NetworkProbe(_Contract):
    """Attempts to reach one sink, from the subject's network and from an unrestricted one.

    Attributes:
        kind: Protocol.
        control: Outcome from the unrestricted network.
        subject: Outcome from the subject's network.
    """

    kind: Literal["tcp", "udp", "icmp"]
    control: ProbeOutcome
    subject: ProbeOutcome


class NamespaceEvidence(_Contract):
    """Network that processes of the subject see.

    Attributes:
        interfaces: Names of the interfaces.
        default_route: Whether there is a default route.
        ipv6_non_loopback: Number of IPv6 addresses outside of loopback.
        listening_ports: Ports that are listened on.
    """

    interfaces: list[str]
    default_route: bool
    ipv6_non_loopback: StrictInt = Field(ge=0)
    listening_ports: list[int] = []


class NetworkEvidence(_Contract):
    """Measured network of a subject.

    Attributes:
        schema_version: Version of this form.
        requested_mode: Mode with which the subject was started.
        subject_network_mode: Mode by the provider's own description of the running subject.
        namespace: Network that the subject sees.
        probes: Attempts to reach a sink.
    """

    schema_version: Literal[1] = 1
    requested_mode: Literal["public", "no-network"]
    subject_network_mode: str
    namespace: NamespaceEvidence
    probes: list[NetworkProbe]
