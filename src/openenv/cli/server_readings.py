"""Figures and sessions of a running server, read again and again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from openenv.auto.target import Target, TargetKind
from openenv.core.addresses import url_with_path
from openenv.core.client.client import authorized_headers
from openenv.core.client.transport.connection import server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, DocumentError, parse_json
from openenv.core.exceptions import ConnectionFailedError
from openenv.core.providers.health import opener_for

_TIMEOUT_S = 5.0
_STARTED = "process_start_time_seconds"


class Rates(NamedTuple):
    """Rates of a server over a while; times are in seconds, ``None`` where there was nothing to time."""

    steps_per_s: float
    resets_per_s: float
    errors: float
    step_p50_s: float | None
    step_p95_s: float | None


@dataclass(frozen=True)
class Counts:
    """Counts of one worker.

    Attributes:
        steps: Steps that gave an observation.
        resets: Resets.
        errors: Requests answered with an error.
        step_buckets: Number of steps that took at most a time, by that time in seconds; ``+Inf`` among them.
        seconds: Time in which they were counted; 0 where the worker does not report it.
        measured_at: Time of the answer, by the monotonic clock.
    """

    steps: float
    resets: float
    errors: float
    step_buckets: Mapping[str, float]
    seconds: float
    measured_at: float

    def since(self, earlier: "Counts | None") -> "Counts":
        """Subtract the worker's earlier counts; where it has none, or has started anew, count from its start."""
        if earlier is None:
            return self
        more = Counts(
            steps=self.steps - earlier.steps,
            resets=self.resets - earlier.resets,
            errors=self.errors - earlier.errors,
            step_buckets=_difference(self.step_buckets, earlier.step_buckets),
            seconds=self.measured_at - earlier.measured_at,
            measured_at=self.measured_at,
        )
        started_anew = min(more.steps, more.resets, more.errors, *more.step_buckets.values()) < 0
        return self if started_anew else more


@dataclass(frozen=True)
class ServerFigures:
    """Figures and sessions of a server at one time.

    Attributes:
        families: Its figures, by name.
        sessions: The answer to ``GET /sessions``; ``None`` where the server does not list them.
        measured_at: Time of the request, by the monotonic clock.
    """

    families: Mapping[str, Metric]
    sessions: Mapping[str, Any] | None
    measured_at: float = field(default_factory=time.monotonic)

    def total(self, sample: str, **labels: str) -> float:
        """Add up the samples of a name that have these labels, those of all workers."""
        return sum(value for having, value in self._samples(sample) if labels.items() <= having.items())

    def by(self, sample: str, label: str, **labels: str) -> dict[str, float]:
        """Add up the samples of a name that have these labels, for each value of a further label."""
        totals: dict[str, float] = {}
        for having, value in self._samples(sample):
            if labels.items() <= having.items():
                totals[having[label]] = totals.get(having[label], 0.0) + value
        return totals

    @property
    def about(self) -> dict[str, str]:
        """The served environment: ``environment``, ``version``, ``python``."""
        return next((labels for labels, _ in self._samples("openenv_server_info")), {})

    @property
    def uptime_s(self) -> float | None:
        """Seconds since the first of its processes started; ``None`` where the server does not report it."""
        started = self.by(_STARTED, "worker").values()
        return time.time() - min(started) if started else None

    @property
    def silent_workers(self) -> list[str]:
        """Numbers of the workers that did not answer in time; nothing else here is of them."""
        return [worker for worker, up in self.by("openenv_worker_up", "worker").items() if not up]

    @property
    def counts(self) -> dict[str, Counts]:
        """Counts of each worker that answered, since it started, by its number."""
        return {worker: self._counts_of(worker) for worker, up in self.by("openenv_worker_up", "worker").items() if up}

    def rates(self, earlier: Mapping[str, Counts]) -> Rates:
        """Return the rates of all workers together, since their earlier counts by number, or else since their start."""
        counts = [now.since(earlier.get(worker)) for worker, now in self.counts.items()]
        buckets: dict[str, float] = {}
        for count in counts:
            buckets = _sum(buckets, count.step_buckets)
        timed = [count for count in counts if count.seconds > 0]
        return Rates(
            steps_per_s=sum(count.steps / count.seconds for count in timed),
            resets_per_s=sum(count.resets / count.seconds for count in timed),
            errors=sum(count.errors for count in counts),
            step_p50_s=quantile(buckets, 0.5),
            step_p95_s=quantile(buckets, 0.95),
        )

    def _counts_of(self, worker: str) -> Counts:
        started = self.total(_STARTED, worker=worker)
        return Counts(
            steps=self.total("openenv_steps_total", worker=worker),
            resets=self.total("openenv_reset_duration_seconds_count", worker=worker),
            errors=self.total("openenv_errors_total", worker=worker),
            step_buckets=self.by("openenv_step_duration_seconds_bucket", "le", worker=worker),
            seconds=time.time() - started if started else 0.0,
            measured_at=self.measured_at,
        )

    def _samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [
            (dict(sample.labels), sample.value)
            for family in self.families.values()
            if name.startswith(family.name)
            for sample in family.samples
            if sample.name == name
        ]


def _sum(buckets: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {bound: buckets.get(bound, 0.0) + others.get(bound, 0.0) for bound in {**buckets, **others}}


def _difference(buckets: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return _sum(buckets, {bound: -count for bound, count in others.items()})


def quantile(buckets: Mapping[str, float], share: float) -> float | None:
    """Estimate a quantile from how many times something took at most each bound, as Prometheus does.

    Args:
        buckets: Number of times, by the bound in seconds; ``+Inf`` among them.
        share: 0.5 for the median.

    Returns:
        Seconds, between the bounds of the bucket in which the quantile lies; ``None`` where nothing was counted.

    Example:
        >>> quantile({"1": 0, "2": 10, "+Inf": 10}, 0.5)
        1.5
    """
    reached = sorted((float(bound), count) for bound, count in buckets.items())
    if not reached or reached[-1][1] <= 0:
        return None
    rank = share * reached[-1][1]
    below, count_below = 0.0, 0.0
    for bound, count in reached:
        if count >= rank and count > count_below:
            if bound == float("inf"):
                break
            return below + (bound - below) * (rank - count_below) / (count - count_below)
        below, count_below = bound, count
    return below


class ServerReadings:
    """Reader of a server's figures and sessions.

    Args:
        url: The server's address. If it requires a token, ``OPENENV_TOKEN`` holds it.

    Raises:
        EnvironmentNotFoundError: The address is none.
        ConfigurationError: The token can't stand in a header.
    """

    def __init__(self, url: str) -> None:
        self.url = Target.of(url).required({TargetKind.ADDRESS}, "`openenv top`").text
        self._headers = authorized_headers(None, None)
        self._opener = opener_for(self.url)

    def read(self, max_sessions: int) -> ServerFigures:
        """Request the server's figures and sessions. This blocks.

        Raises:
            ConnectionFailedError: It does not answer, or is no OpenEnv server.
            ServerUnauthorizedError: It requires a token, or another token.
        """
        requested_at = time.monotonic()
        figures = self._get("/metrics")
        assert figures is not None
        try:
            families = {family.name: family for family in text_string_to_metric_families(figures)}
        except ValueError as error:
            raise ConnectionFailedError(f"Expected metrics at {self.url}/metrics, but: {error}.") from error
        if "openenv_sessions" not in families:
            raise ConnectionFailedError(f"{self.url}/metrics has no figures of OpenEnv. Is it an OpenEnv server?")
        listed = self._get(f"/sessions?limit={max_sessions}", may_be_missing=True)
        try:
            return ServerFigures(families, None if listed is None else parse_json(listed), requested_at)
        except DocumentError as error:
            raise ConnectionFailedError(f"Expected JSON at {self.url}/sessions, but: {error}.") from error

    def _get(self, path: str, *, may_be_missing: bool = False) -> str | None:
        request = Request(url_with_path(self.url, path))  # noqa: S310  # the scheme was checked above
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)  # the token is for this server alone
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                text: str = answer.read(MAX_JSON_BYTES).decode()
                return text
        except HTTPError as error:
            with error:
                sentence = server_sentence(error.read())
            if error.code == 404 and may_be_missing:
                return None
            if error.code == 401:
                raise unauthorized(self.url, sentence) from error
            if error.code == 403 and sentence is not None:  # the role of the token, or a name of the server
                raise ConnectionFailedError(f"{self.url} refused the request: {sentence}") from error
            raise ConnectionFailedError(
                f"{self.url} answered with status {error.code}. Is it an OpenEnv server?"
            ) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ConnectionFailedError(f"No answer from {self.url}: {reason}.") from error
