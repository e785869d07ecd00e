"""The text that Prometheus reads."""

import json
import math

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.metrics import BOUNDS_S
from openenv.core.env_server.operations.exposition import exposition, figures, from_report, to_report
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def sessions() -> SessionManager:
    types = EnvironmentTypes(Add, Total, State)
    sessions = SessionManager(EnvironmentFactory(CounterEnvironment), types, ServerConfig(max_sessions=7))
    metrics = sessions.metrics
    metrics.steps = 5
    for duration in (0.00001, 0.02, 0.02, 1000):
        metrics.step_times.observe(duration)
    metrics.errors['TIMEOUT"\n\\'] = 2
    metrics.closed["idle"] += 3
    metrics.draining = True
    return sessions


def carried(families: list[Metric]) -> list[Metric]:
    """What arrives of families that one worker sends to another."""
    return list(from_report(json.loads(json.dumps(to_report(families)))))


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_prometheus(text)
        for sample in family.samples
    }


def test_both_formats_are_what_their_parsers_expect(sessions: SessionManager) -> None:
    families = figures(sessions, 'the "echo"', "0")
    text, content_type = exposition(families, "*/*")
    assert content_type.startswith("text/plain")
    openmetrics, openmetrics_type = exposition(families, OPENMETRICS)
    assert openmetrics_type.startswith("application/openmetrics-text")
    names = {family.name for family in parse_prometheus(text.decode())}
    assert names >= {"openenv_sessions", "openenv_steps", "openenv_step_duration_seconds", "process_cpu_seconds"}
    families_read = parse_openmetrics(openmetrics.decode())  # type: ignore[no-untyped-call]
    assert {family.name for family in families_read} >= names - {"openenv_server_info"}


def test_values_and_labels(sessions: SessionManager) -> None:
    found = samples(exposition(figures(sessions, "echo", "3"), "")[0].decode())
    assert found["openenv_steps_total", (("worker", "3"),)] == 5
    assert found["openenv_errors_total", (("code", 'TIMEOUT"\n\\'), ("worker", "3"))] == 2
    assert found["openenv_sessions_closed_total", (("reason", "idle"), ("worker", "3"))] == 3
    assert found["openenv_sessions_closed_total", (("reason", "away"), ("worker", "3"))] == 0
    assert found["openenv_draining", (("worker", "3"),)] == 1
    assert found["openenv_sessions_capacity", ()] == 7


def test_buckets_add_up_to_the_count(sessions: SessionManager) -> None:
    found = samples(exposition(figures(sessions, "echo", "0"), "")[0].decode())
    buckets = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == "openenv_step_duration_seconds_bucket"
    }
    assert list(buckets) == [*BOUNDS_S, math.inf]
    assert [buckets[bound] for bound in (0.00001, 0.01, 0.025, 300, math.inf)] == [1, 1, 3, 3, 4]
    assert found["openenv_step_duration_seconds_count", (("worker", "0"),)] == 4
    assert found["openenv_step_duration_seconds_sum", (("worker", "0"),)] == pytest.approx(1000.04001)


def test_workers_stand_beside_each_other_and_what_is_the_server_s_stands_once(sessions: SessionManager) -> None:
    families = [family for worker in "012" for family in carried(figures(sessions, "echo", worker))]
    text = exposition(families, "")[0].decode()
    found = samples(text)
    assert [found["openenv_steps_total", (("worker", worker),)] for worker in "012"] == [5, 5, 5]
    assert text.count("openenv_sessions_capacity 7") == 1
    assert text.count("# TYPE openenv_steps_total counter") == 1
    assert len([line for line in text.splitlines() if line.startswith("openenv_server_info")]) == 1


def test_a_way_through_json_changes_nothing(sessions: SessionManager) -> None:
    families = [family for family in figures(sessions, "echo", "0") if not family.name.startswith("process_")]
    assert carried(families) == families
