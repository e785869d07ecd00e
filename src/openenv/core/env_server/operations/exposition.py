"""Metrics of a server in the text format of Prometheus.

Each process of a server lists its own metrics as families of ``prometheus_client``. The worker that a request for
``/metrics`` reaches merges the families of all workers. Samples of the whole server have no label ``worker``.
"""

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from openenv._version import __version__
from openenv.core.addresses import token_name
from openenv.core.env_server.access.tokens import TokenFile
from openenv.core.env_server.metrics import (
    BOUNDS_S,
    INLINE_STEPS_TIMED,
    RECOVERY_FAILURES,
    TRACE_LOSSES,
    Ending,
    Histogram,
    Metrics,
    Transport,
)
from openenv.core.env_server.operations.store_sizes import StoreSize, store_sizes
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.state import Phase

_BOUNDS = [*(str(bound) for bound in BOUNDS_S), "+Inf"]


def to_report(metrics: Iterable[Metric]) -> list[Any]:
    """Return families as JSON for another process, where ``from_report`` reads them."""
    return [
        [metric.name, metric.documentation, metric.type, [sample[:3] for sample in metric.samples]]
        for metric in metrics
    ]


def from_report(report: Iterable[Sequence[Any]]) -> Iterator[Metric]:
    """Read the families in a report of ``to_report``."""
    for name, documentation, kind, samples in report:
        metric = Metric(name, documentation, kind)
        for sample in samples:
            metric.add_sample(*sample)
        yield metric


def figures(sessions: SessionManager, environment: str, worker: str, tokens: TokenFile | None = None) -> list[Metric]:
    """List the metrics of this process.

    Args:
        sessions: The sessions of this process, with their counters.
        environment: Name of the environment.
        worker: Number of this worker, for the label of the same name.
        tokens: The named tokens; ``None`` for none.
    """
    metrics = [*_server(sessions, environment), *_gauges(sessions, worker), *_counters(sessions.metrics, worker)]
    return [*metrics, *_by_token(sessions, tokens, worker), *_durations(sessions.metrics, worker), *_process(worker)]


def exposition_of_workers(reports: Mapping[str, Mapping[str, Any] | None], accept: str) -> tuple[bytes, str]:
    """Write the metrics of all workers as text.

    Args:
        reports: The workers' reports by worker number, each with the families of ``to_report`` as ``metrics``; ``None``
            for a worker that did not answer in time.
        accept: The ``Accept`` header of the request.

    Returns:
        See ``exposition``.
    """
    text = "1 for a worker that answered, in time, for its figures."
    up = GaugeMetricFamily("openenv_worker_up", text, labels=["worker"])
    families: list[Metric] = [up]
    for worker, report in reports.items():
        up.add_metric([worker], report is not None)
        families += from_report((report or {}).get("metrics", []))
    return exposition(families, accept)


def exposition(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Write families as text, those of the same name together.

    Args:
        families: The families of all workers.
        accept: The ``Accept`` header of the request.

    Returns:
        The text and its content type: OpenMetrics where the request accepts it, else Prometheus' own format.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Merged(families)), content_type


class _Merged(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Merge families of the same name; equal samples of several workers are the server's, and appear once."""
        merged: dict[str, Metric] = {}
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for family in self._families:
            metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                if key not in seen:
                    seen.add(key)
                    metric.samples.append(sample)
        return merged.values()


def _server(sessions: SessionManager, environment: str) -> Iterable[Metric]:
    about = {"environment": environment, "version": __version__, "python": platform.python_version()}
    yield InfoMetricFamily("openenv_server", "Environment, version of OpenEnv, and Python version.", value=about)
    limit = sessions.limits.max_sessions
    yield GaugeMetricFamily("openenv_sessions_capacity", "Sessions that may be open at once, in all workers.", limit)
    yield from _stores(store_sizes(sessions.limits))


def _stores(sizes: Mapping[str, StoreSize]) -> Iterable[Metric]:
    texts = {
        "openenv_store_bytes": "Bytes on disk of the journal's or the traces' file, its log included.",
        "openenv_store_max_bytes": "Bytes beyond which the oldest of its content is removed.",
        "openenv_store_free_bytes": "Bytes that the disk of the file has left.",
    }
    families = {name: GaugeMetricFamily(name, text, labels=["store"]) for name, text in texts.items()}
    for store, size in sizes.items():
        for family, value in zip(families.values(), (size.used, size.largest, size.free), strict=True):
            family.add_metric([store], value)
    return families.values() if sizes else ()


def _gauges(sessions: SessionManager, worker: str) -> Iterable[Metric]:
    live = list(sessions)
    phases = {phase.value: sum(session.episode.phase is phase for session in live) for phase in Phase}
    yield _gauge("openenv_sessions", "Open sessions, by phase of their episode.", worker, "phase", phases)
    metrics = sessions.metrics
    now = {
        "openenv_sessions_opening": ("Sessions being opened.", len(sessions) - len(live)),
        "openenv_sessions_away": ("Open sessions whose client has lost its connection.", _count(live, "away")),
        "openenv_requests_running": ("Requests under way in environments.", _count(live, "busy")),
        "openenv_requests_queued": ("Requests queued behind another request of their session.", metrics.queued),
        "openenv_clients_waiting": ("Requests in the queue for a session slot.", metrics.waiting),
        "openenv_journal_failing": ("1 while the journal can't be written.", metrics.journal_failing),
        "openenv_traces_failing": ("1 while the traces can't be written.", metrics.traces_failing),
        "openenv_sessions_not_recoverable": (
            "Open sessions that could not be recovered from the journal if the process ended now.",
            sum(session.recoverable is False for session in live),
        ),
        "openenv_draining": ("1 while the server drains before its shutdown and opens no session.", metrics.draining),
    }
    for name, (text, value) in now.items():
        yield _gauge(name, text, worker, None, {"": value})


def _count(live: Iterable[object], attribute: str) -> int:
    return sum(getattr(session, attribute) for session in live)


def _counters(metrics: Metrics, worker: str) -> Iterable[Metric]:
    opened = {str(transport): metrics.opened[transport] for transport in Transport}
    yield _counter("openenv_sessions_opened", "Sessions opened, by transport.", worker, "transport", opened)
    closed = {str(ending): metrics.closed[ending] for ending in Ending}
    yield _counter("openenv_sessions_closed", "Sessions that ended, by reason.", worker, "reason", closed)
    yield _counter("openenv_errors", "Requests answered with an error, by code.", worker, "code", dict(metrics.errors))
    failures = {why: metrics.recoveries_failed[why] for why in RECOVERY_FAILURES}
    text = "Failed recoveries of sessions, by reason."
    yield _counter("openenv_sessions_unrecoverable", text, worker, "reason", failures)
    losses = {why: metrics.trace_parts_dropped[why] for why in TRACE_LOSSES}
    text = "Parts of episodes' traces that were lost, by reason."
    yield _counter("openenv_trace_parts_dropped", text, worker, "reason", losses)
    frames = {"in": metrics.frames_in, "out": metrics.frames_out}
    yield _counter("openenv_websocket_frames", "Frames over WebSockets.", worker, "direction", frames)
    characters = {"in": metrics.characters_in, "out": metrics.characters_out}
    text = "Characters of those frames; bytes, as far as they are ASCII."
    yield _counter("openenv_websocket_characters", text, worker, "direction", characters)
    total = {
        "openenv_steps": ("Steps that returned an observation.", metrics.steps),
        "openenv_sessions_resumed": ("Sessions resumed on another socket.", metrics.resumed),
        "openenv_sessions_recovered": ("Sessions recovered from the journal.", metrics.recovered),
        "openenv_sessions_forked": ("Sessions opened as forks of others.", metrics.forked),
        "openenv_journal_replaced": (
            "Times that the journal was removed or replaced while the server ran, and a new one was created.",
            metrics.journal_replaced,
        ),
        "openenv_journal_commits": ("Commits of the journal.", metrics.journal_commits),
        "openenv_journal_seconds": ("Seconds spent in commits of the journal.", metrics.journal_seconds),
    }
    for name, (text, value) in total.items():
        yield _counter(name, text, worker, None, {"": value})


def _by_token(sessions: SessionManager, tokens: TokenFile | None, worker: str) -> Iterable[Metric]:
    if tokens is None:
        return
    names = tokens.names
    now = Counter(filter(None, (token_name(session.client) for session in sessions)))
    figures_by_name: tuple[tuple[Callable[..., Metric], str, str, Counter[str]], ...] = (
        (_gauge, "openenv_token_sessions", "Open sessions of clients with a named token.", now),
        (_counter, "openenv_token_sessions_opened", "Sessions opened by them.", sessions.metrics.opened_by_token),
        (_counter, "openenv_token_refused", "Requests that the token's role did not allow.", tokens.refused),
    )
    for make, metric, text, counts in figures_by_name:
        yield make(metric, text, worker, "token", {**dict.fromkeys(names, 0), **counts})


def _durations(metrics: Metrics, worker: str) -> Iterable[Metric]:
    text = "Time from a reset's turn to its observation."
    yield _histogram("openenv_reset_duration_seconds", text, worker, metrics.reset_times)
    text = f"The same for steps; of steps inline on the event loop, one in {INLINE_STEPS_TIMED} is timed."
    yield _histogram("openenv_step_duration_seconds", text, worker, metrics.step_times)


def _process(worker: str) -> Iterable[Metric]:
    for metric in ProcessCollector(registry=None).collect():
        for sample in metric.samples:
            sample.labels["worker"] = worker
        yield metric


def _gauge(name: str, text: str, worker: str, label: str | None, values: Mapping[str, float]) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=_labels(label)), worker, label, values)


def _counter(name: str, text: str, worker: str, label: str | None, values: Mapping[str, float]) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=_labels(label)), worker, label, values)


def _labels(label: str | None) -> list[str]:
    return ["worker"] if label is None else ["worker", label]


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, worker: str, label: str | None, values: Mapping[str, float]
) -> Metric:
    for value_of, value in values.items():
        family.add_metric([worker] if label is None else [worker, value_of], value)
    return family


def _histogram(name: str, text: str, worker: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["worker"])
    reached, buckets = 0, []
    for bound, count in zip(_BOUNDS, histogram.counts, strict=True):
        reached += count
        buckets.append((bound, reached))
    family.add_metric([worker], buckets, histogram.total_s)
    return family
