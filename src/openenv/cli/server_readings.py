"""What a running server tells of itself, read again and again: its figures, and its sessions."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from openenv.core.containers.health import opener_for
from openenv.core.env_client import authorized_headers
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ServerUnauthorizedError

_TIMEOUT_S = 5.0
_STEP_BUCKETS = "openenv_step_duration_seconds_bucket"


class Rates(NamedTuple):
    """What went on between two readings; times are in seconds, ``None`` where there was nothing to time."""

    steps_per_s: float
    resets_per_s: float
    errors: float
    step_p50_s: float | None
    step_p95_s: float | None


@dataclass(frozen=True)
class Reading:
    """What a server told at one time.

    Attributes:
        families: Its figures, by name.
        sessions: The answer to ``GET /sessions``; ``None`` where the server does not list them.
        taken_at: When, by the monotonic clock.
    """

    families: Mapping[str, Metric]
    sessions: Mapping[str, Any] | None
    taken_at: float = field(default_factory=time.monotonic)

    def total(self, sample: str, **labels: str) -> float:
        """Add up the samples of a name that have these labels, those of all workers."""
        return sum(value for having, value in self._samples(sample) if labels.items() <= having.items())

    def by(self, sample: str, label: str) -> dict[str, float]:
        """Add up the samples of a name for each value of a label."""
        totals: dict[str, float] = {}
        for labels, value in self._samples(sample):
            totals[labels[label]] = totals.get(labels[label], 0.0) + value
        return totals

    @property
    def about(self) -> dict[str, str]:
        """What is served, and by what: ``environment``, ``version``, ``python``."""
        return next((labels for labels, _ in self._samples("openenv_server_info")), {})

    @property
    def uptime_s(self) -> float | None:
        """Seconds since the first of its processes started; ``None`` where the server can't tell."""
        started = [value for _, value in self._samples("process_start_time_seconds")]
        return time.time() - min(started) if started else None

    def since(self, earlier: "Reading | None") -> Rates:
        """Say what went on since an earlier reading; without one, since the server started."""
        if earlier is not None and self._counts_less_than(earlier):  # a worker has started anew
            earlier = None
        seconds = self.taken_at - earlier.taken_at if earlier else self.uptime_s
        steps = self._more("openenv_steps_total", earlier)
        resets = self._more("openenv_reset_duration_seconds_count", earlier)
        buckets = self.by(_STEP_BUCKETS, "le")
        for bound, count in (earlier.by(_STEP_BUCKETS, "le") if earlier else {}).items():
            buckets[bound] -= count
        return Rates(
            steps_per_s=steps / seconds if seconds else 0.0,
            resets_per_s=resets / seconds if seconds else 0.0,
            errors=self._more("openenv_errors_total", earlier),
            step_p50_s=quantile(buckets, 0.5),
            step_p95_s=quantile(buckets, 0.95),
        )

    def _samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [
            (dict(sample.labels), sample.value)
            for family in self.families.values()
            if name.startswith(family.name)
            for sample in family.samples
            if sample.name == name
        ]

    def _more(self, sample: str, earlier: "Reading | None") -> float:
        return self.total(sample) - (earlier.total(sample) if earlier else 0.0)

    def _counts_less_than(self, earlier: "Reading") -> bool:
        return self.total("openenv_steps_total") < earlier.total("openenv_steps_total")


def quantile(buckets: Mapping[str, float], share: float) -> float | None:
    """Estimate a quantile from how many times something took at most each bound, as Prometheus does.

    Args:
        buckets: How many times, by the bound in seconds; ``+Inf`` among them.
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
    """Reads what a server tells of itself.

    Args:
        url: The server's address.
        token: What it asks of those from elsewhere; by default what ``OPENENV_TOKEN`` says.

    Raises:
        ConfigurationError: The address is none, or the token can't stand in a header.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        if "://" not in url:
            url = f"http://{url}"
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"A server's address looks like http://host:port, but got {url!r}.")
        self.url = url.rstrip("/")
        self._headers = authorized_headers(None, token)
        self._opener = opener_for(self.url)

    def read(self, most_sessions: int) -> Reading:
        """Ask the server. This blocks.

        Args:
            most_sessions: How many sessions to ask for.

        Raises:
            ConnectionFailedError: It does not answer, or is no OpenEnv server.
            ServerUnauthorizedError: It asks for a token, or for another one.
        """
        figures = self._get("/metrics")
        assert figures is not None
        try:
            families = {family.name: family for family in text_string_to_metric_families(figures)}
        except ValueError as error:
            raise ConnectionFailedError(f"Expected metrics at {self.url}/metrics, but: {error}.") from error
        if "openenv_sessions" not in families:
            raise ConnectionFailedError(f"{self.url}/metrics has no figures of OpenEnv. Is it an OpenEnv server?")
        listed = self._get(f"/sessions?limit={most_sessions}", may_be_missing=True)
        return Reading(families, None if listed is None else json.loads(listed))

    def _get(self, path: str, *, may_be_missing: bool = False) -> str | None:
        request = Request(self.url + path)  # noqa: S310  # the scheme was checked above
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)  # the token is for this server alone
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                text: str = answer.read().decode()
                return text
        except HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            if error.code == 404 and may_be_missing:
                return None
            raise self._refusal(error.code, said) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ConnectionFailedError(f"No answer from {self.url}: {reason}.") from error

    def _refusal(self, status: int, said: str) -> Exception:
        if status == 401:
            return ServerUnauthorizedError(_detail(said) or "The server asks for a token.", "UNAUTHORIZED")
        return ConnectionFailedError(f"{self.url} answered with status {status}. Is it an OpenEnv server?")


def _detail(said: str) -> str | None:
    try:
        answer = json.loads(said)
    except ValueError:
        return None
    return str(answer["detail"]) if isinstance(answer, dict) and "detail" in answer else None
