"""ServerFigures a server's figures, and what two readings say together."""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import Serve

from openenv.cli.server_readings import ServerFigures, ServerReadings, quantile
from openenv.core.exceptions import ConnectionFailedError, EnvironmentNotFoundError, ServerUnauthorizedError


def reading(text: str, measured_at: float = 0.0) -> ServerFigures:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return ServerFigures(families, None, measured_at)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that answers everything alike, and notes the tokens that it is shown."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class TestServerReadings:
    def test_what_a_server_tells(self, serve: Serve) -> None:
        server = serve(env_name="counting")
        with server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.do("step", name, amount=1)
            taken = ServerReadings(server.url.removeprefix("http://")).read(10)
            assert taken.about["environment"] == "counting"
            assert taken.total("openenv_steps_total") == 1
            assert taken.total("openenv_sessions", phase="playing") == 1
            assert taken.by("openenv_sessions", "phase") == {"new": 0, "playing": 1, "done": 0}
            assert taken.sessions is not None
            assert [row["session"] for row in taken.sessions["sessions"]] == [name[:13]]
            assert taken.uptime_s is not None
            assert 0 < taken.uptime_s < 24 * 3600

    def test_a_server_in_production_lists_no_sessions(self, serve: Serve) -> None:
        assert ServerReadings(serve(mode="production").url).read(10).sessions is None

    @pytest.mark.parametrize(
        ("status", "body", "message"),
        [
            (200, b"<html>", "Expected metrics at"),
            (200, b"other_total 1\n", "has no figures of OpenEnv"),
            (404, b"", "answered with status 404. Is it an OpenEnv server?"),
            (500, b"", "answered with status 500"),
            (403, b"", "answered with status 403. Is it an OpenEnv server?"),
            (
                403,
                b'{"detail": "Expected a token with the role watch.", "code": "UNAUTHORIZED"}',
                "with the role watch",
            ),
        ],
    )
    def test_what_is_no_openenv_server(self, status: int, body: bytes, message: str) -> None:
        with answering(status, body) as url, pytest.raises(ConnectionFailedError, match=message):
            ServerReadings(url).read(10)

    def test_a_server_that_asks_for_a_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_TOKEN", "a-wrong-one")
        refusal = b'{"detail": "Show me the token.", "code": "UNAUTHORIZED"}'
        expected = pytest.raises(ServerUnauthorizedError, match="Show me the token")
        with answering(401, refusal) as url, expected as raised:
            ServerReadings(url).read(10)
        assert "a-wrong-one" not in str(raised.value)

    def test_no_server(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(ConnectionFailedError, match=f"No answer from http://127.0.0.1:{port}"):
            ServerReadings(f"http://127.0.0.1:{port}").read(10)

    @pytest.mark.parametrize("url", ["ftp://host", "file:///etc/passwd"])
    def test_what_is_no_address(self, url: str) -> None:
        with pytest.raises(EnvironmentNotFoundError, match="Expected a server's address"):
            ServerReadings(url)


def figures(*workers: str, **up: int) -> str:
    """What a server tells; each worker as ``number:steps``, and each of its steps took 0.15 s."""
    counts = [worker.split(":") for worker in workers]
    lines = ["# TYPE openenv_worker_up gauge"]
    lines += [f'openenv_worker_up{{worker="{number}"}} 1' for number, _ in counts]
    lines += [f'openenv_worker_up{{worker="{number.removeprefix("w")}"}} {value}' for number, value in up.items()]
    lines += ["# TYPE openenv_steps_total counter"]
    lines += [f'openenv_steps_total{{worker="{number}"}} {steps}' for number, steps in counts]
    lines += ["# TYPE openenv_step_duration_seconds histogram"]
    for number, steps in counts:
        for bound, count in (("0.1", 0), ("0.2", steps), ("+Inf", steps)):
            lines.append(f'openenv_step_duration_seconds_bucket{{le="{bound}",worker="{number}"}} {count}')
    return "\n".join(lines) + "\n"


class TestRates:
    def test_between_two_readings_of_all_workers(self) -> None:
        text = """# TYPE openenv_reset_duration_seconds histogram
openenv_reset_duration_seconds_count{worker="0"} 4
# TYPE openenv_errors_total counter
openenv_errors_total{code="TIMEOUT",worker="1"} 3
"""
        earlier = reading(figures("0:10", "1:5"), measured_at=2.0)
        rates = reading(figures("0:30", "1:25") + text, measured_at=4.0).rates(earlier.counts)
        assert (rates.steps_per_s, rates.resets_per_s, rates.errors) == (20, 2, 3)
        assert rates.step_p50_s == pytest.approx(0.15)

    def test_a_worker_that_has_started_anew_counts_from_its_start_and_the_others_as_ever(self) -> None:
        earlier = reading(figures("0:1000", "1:1000"), measured_at=2.0)
        started = (
            f'# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds{{worker="1"}} {time.time() - 1}\n'
        )
        rates = reading(figures("0:1040", "1:30") + started, measured_at=4.0).rates(earlier.counts)
        assert rates.steps_per_s == pytest.approx(20 + 30, rel=0.1)

    def test_a_worker_that_is_held_up_is_no_restart(self) -> None:
        first = reading(figures("0:1000", "1:1000"), measured_at=2.0)
        second = reading(figures("0:1040", w1=0), measured_at=4.0)
        third = reading(figures("0:1080", "1:1100"), measured_at=6.0)
        assert second.silent_workers == ["1"]
        assert second.rates(first.counts).steps_per_s == 20
        rates = third.rates({**first.counts, **second.counts})
        assert rates.steps_per_s == 20 + 100 / 4  # it has not answered for four seconds

    def test_a_worker_without_earlier_counts_is_counted_from_its_start(self) -> None:
        rates = reading(figures("0:10"), measured_at=4.0).rates({})
        assert rates.steps_per_s == 0  # without a start time there is nothing to divide by
        assert rates.step_p50_s == pytest.approx(0.15)

    def test_nothing_happened(self) -> None:
        earlier = reading(figures("0:10"), measured_at=2.0)
        assert reading(figures("0:10"), measured_at=4.0).rates(earlier.counts) == (0, 0, 0, None, None)
        assert earlier.rates(earlier.counts) == (0, 0, 0, None, None)


class TestQuantile:
    @given(
        durations=st.lists(st.floats(min_value=0, max_value=10), min_size=1),
        share=st.floats(min_value=0.01, max_value=1),
    )
    def test_it_lies_in_the_bucket_of_the_true_one(self, durations: list[float], share: float) -> None:
        bounds = [0.5, 1.0, 2.0, 5.0, math.inf]
        buckets = {str(bound): float(sum(duration <= bound for duration in durations)) for bound in bounds}
        true = sorted(durations)[max(0, math.ceil(share * len(durations) - 1e-9) - 1)]
        upper = next(bound for bound in bounds if true <= bound)
        lower = max([0.0, *(bound for bound in bounds if bound < upper)])
        found = quantile(buckets, share)
        assert found is not None
        assert lower - 1e-9 <= found <= min(upper, 5.0) + 1e-9

    @pytest.mark.parametrize("buckets", [{}, {"0.1": 0, "+Inf": 0}])
    def test_nothing_was_counted(self, buckets: dict[str, float]) -> None:
        assert quantile(buckets, 0.5) is None

    def test_beyond_the_last_bound_it_is_that_bound(self) -> None:
        assert quantile({"0.1": 0, "0.2": 1, "+Inf": 10}, 0.99) == 0.2
