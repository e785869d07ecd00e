"""How a server is shown."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from openenv.cli.server_readings import ServerFigures
from openenv.cli.views.server import Picture, duration

FIGURES = """# TYPE openenv_server_info gauge
openenv_server_info{environment="catch",version="1.2"} 1
# TYPE openenv_sessions_capacity gauge
openenv_sessions_capacity 64
# TYPE openenv_sessions gauge
openenv_sessions{phase="playing",worker="0"} 60
openenv_sessions{phase="done",worker="1"} 2
# TYPE openenv_sessions_away gauge
openenv_sessions_away{worker="0"} 3
# TYPE openenv_clients_waiting gauge
openenv_clients_waiting{worker="0"} 4
# TYPE openenv_requests_running gauge
openenv_requests_running{worker="0"} 5
# TYPE openenv_requests_queued gauge
openenv_requests_queued{worker="0"} 6
# TYPE openenv_steps_total counter
openenv_steps_total{worker="0"} 1234567
# TYPE openenv_worker_up gauge
openenv_worker_up{worker="0"} 1
openenv_worker_up{worker="1"} 0
# TYPE openenv_draining gauge
openenv_draining{worker="0"} 1
# TYPE openenv_errors_total counter
openenv_errors_total{code="TIMEOUT",worker="0"} 1
openenv_errors_total{code="VALIDATION_ERROR",worker="0"} 2000
openenv_errors_total{code="SESSION_ERROR",worker="0"} 5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes{worker="0"} 104857600
"""


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "session": f"0.6f1ed002-{number:04}",
        "worker": "0",
        "transport": "legacy",
        "phase": "playing",
        "age_s": 7265.0,
        "idle_s": 0.25,
        "episodes": 12,
        "steps": 123456,
        "episode_steps": 321,
        "reward": -12.3456,
        "busy": False,
        "away": False,
        **fields,
    }


def reading(*rows: dict[str, Any], total: int | None = None) -> ServerFigures:
    families = {family.name: family for family in text_string_to_metric_families(FIGURES)}
    return ServerFigures(families, {"total": len(rows) if total is None else total, "sessions": list(rows)})


def shown(picture: Picture, width: int = 80) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(picture)
    return capture.get()


def test_everything_fits_into_80_columns() -> None:
    rows = [row(1), row(2, away=True), row(3, busy=True), row(4, reward=None, phase="done")]
    text = shown(Picture("http://localhost:8000", reading(*rows)))
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    for told in (
        "catch",
        "62 of 64",
        "3 away, 4 in line",
        "5 running, 6 queued",
        "100 MiB, 1 of 2 workers",
        "draining",
    ):
        assert told in text
    assert "2,006  VALIDATION_ERROR 2,000" in text
    lines = [line.split() for line in text.splitlines() if "6f1ed002" in line]
    assert lines[0][1:] == ["legacy", "playing", "12", "321", "123,456", "-12.35", "250", "ms", "2h", "01m"]
    assert lines[1][2] == "away"
    assert lines[2][7] == "working"
    assert (lines[3][2], lines[3][6]) == ("done", "-")


def test_only_as_many_rows_as_there_is_room_for() -> None:
    text = shown(Picture("http://localhost:8000", reading(*map(row, range(9)), total=1500), lines=4))
    assert text.count("6f1ed002") == 4
    assert "and 1,496 more" in text


def test_a_server_that_has_gone_keeps_its_last_figures() -> None:
    text = shown(Picture("http://localhost:8000", reading(row(1)), trouble="No answer."))
    assert "No answer. Trying again; q quits." in text
    assert "62 of 64" in text


def test_a_worker_that_does_not_answer_is_told() -> None:
    text = shown(Picture("http://localhost:8000", reading(row(1))))
    assert "Worker 1 does not answer; what is shown is that of the others." in text
    assert "does not answer" not in shown(Picture("http://localhost:8000", reading(row(1)), trouble="No answer."))


def test_a_server_that_never_answered() -> None:
    assert shown(Picture("http://localhost:8000", None, trouble="No answer.")).count("\n") == 2


def test_markup_from_a_server_is_text() -> None:
    told = shown(
        Picture("http://x", reading(row(1, session="[red]0.6f1ed002")), trouble="[bold]gone[/bold]"), width=100
    )
    assert "[bold]gone[/bold]" in told
    assert "[red]0.6f1ed002" in told


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 µs"), (0.9996, "1 s"), (59.96, "1m 00s"), (3599.6, "1h 00m"), (86400, "1d 00h")]
)
def test_durations_at_the_edges(seconds: float, text: str) -> None:
    assert duration(seconds) == text
