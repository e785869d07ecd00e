"""What a server writes into its log, and what it keeps to itself."""

import json
import logging
import logging.config
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import PROGRAMS, V1Wire, Wire, eventually

from openenv.core.env_server.logs import JsonFormatter, LogSettings, TextFormatter, log_config, of_worker
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.redaction import HiddenCredentials, without_credentials

SESSION_ID = "1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11"
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def record(message: str, *arguments: Any, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("openenv.test").makeRecord("openenv.test", level, "", 0, message, arguments, None)
    vars(made).update(extra)
    return made


class TestFormats:
    def test_json_is_an_object_a_line(self) -> None:
        formatted = JsonFormatter(worker="2").format(
            record("two\nlines, %s", "one record", session="1.6f", code="TIMEOUT")
        )
        assert "\n" not in formatted
        fields = json.loads(formatted)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", fields.pop("time"))
        assert fields == {
            "level": "info",
            "logger": "openenv.test",
            "message": "two\nlines, one record",
            "session": "1.6f",
            "code": "TIMEOUT",
            "worker": "2",
        }

    def test_json_tells_nothing_that_is_not_there(self) -> None:
        assert json.loads(JsonFormatter().format(record("plain", session=None))).keys() == {
            "time",
            "level",
            "logger",
            "message",
        }

    def test_text_says_once_what_there_is(self) -> None:
        line = TextFormatter(worker="0").format(record("session %s ended", "6f1e", session="6f1e", code="TIMEOUT"))
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO openenv.test: session 6f1e ended \[code TIMEOUT, worker 0\]",
            line,
        )

    @pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
    def test_a_traceback_stays(self, formatter: logging.Formatter) -> None:
        try:
            raise ValueError("kaboom")
        except ValueError:
            failed = record("it failed", exc_info=sys.exc_info())
        assert "ValueError: kaboom" in formatter.format(failed)

    @pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
    def test_the_id_in_an_address_is_shortened(self, formatter: logging.Formatter) -> None:
        line = formatter.format(record('"WebSocket %s" [accepted]', f"/ws?session_id={SESSION_ID}&x=1"))
        assert SESSION_ID not in line
        assert "session_id=1.6f1ed002-ab5d&x=1" in line


class TestHiddenCredentials:
    @pytest.mark.parametrize("name", ["Authorization", "proxy-authorization", "Cookie", "X-OpenEnv-Session"])
    def test_the_value_of_a_header_that_lets_somebody_in_is_taken_out(self, name: str) -> None:
        header = record("< %s: %s", name, "hunter2")
        assert HiddenCredentials().filter(header)
        assert header.getMessage() == f"< {name}: [redacted]"

    @pytest.mark.parametrize("arguments", [(), ("Host", "x"), ("authorization",), ({"authorization": "x"},)])
    def test_other_records_stay_as_they_are(self, arguments: tuple[Any, ...]) -> None:
        other = record("%s", *arguments)
        expected = other.args
        assert HiddenCredentials().filter(other)
        assert other.args == expected


SECRET = "hunter2-hunter2"
ADDRESSES = (
    f"/health?token={SECRET}",
    f"/health?seed=3&Access_Token={SECRET}&x=1",
    f"/mcp?%74oken={SECRET}",
    f"/nothing?api-key={SECRET};x=1",
    f"/web/live/feed?x;password={SECRET}'\"",
    f"/ws?session_id=x&auth={SECRET}",
)


class TestCredentialsInAddresses:
    @pytest.mark.parametrize("address", ADDRESSES)
    def test_they_are_removed(self, address: str) -> None:
        line = f'127.0.0.1:1 - "GET {address} HTTP/1.1" 200'
        assert SECRET not in without_credentials(line)
        assert SECRET not in without_credentials(f"URL('http://localhost{address}')")
        assert without_credentials(line).endswith(' HTTP/1.1" 200')

    def test_what_is_none_stays(self) -> None:
        text = 'a = b, "GET /web/?seed=3&split=train&index=0 HTTP/1.1" and /x?steps=4&done=true (1 = 1)'
        assert without_credentials(text) == text
        assert without_credentials("('/ws?token=x&seed=3')") == "('/ws?token=[redacted]&seed=3')"

    @pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
    def test_nor_are_they_in_tracebacks(self, formatter: logging.Formatter) -> None:
        try:
            raise ValueError(f"http://localhost{ADDRESSES[0]}")
        except ValueError:
            failed = record("it failed", exc_info=sys.exc_info())
        assert SECRET not in formatter.format(failed)
        assert HiddenCredentials().filter(failed)
        assert SECRET not in logging.Formatter().format(failed)

    @pytest.mark.parametrize("server", ["text", "json", "uvicorn"])
    def test_a_server_logs_none(self, server: str, tmp_path: Path) -> None:
        """With the log of this package, and with uvicorn's own."""
        (tmp_path / "plain.py").write_text(f"import sys; sys.path.insert(0, {str(PROGRAMS)!r})\n{_PLAIN}")
        program = [PROGRAMS / "logging_server.py", server, "debug"] if server != "uvicorn" else ["plain.py"]
        with (
            subprocess.Popen(
                [sys.executable, *map(str, program)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
            ) as process,
            ExitStack() as ending,
        ):
            ending.callback(process.kill)
            assert process.stdout is not None
            port = int(process.stdout.readline())
            refused = HANDSHAKE.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n")  # uvicorn alone would not answer
            for address in ADDRESSES:
                for kind in (_GET, HANDSHAKE, HANDSHAKE if server == "uvicorn" else refused):
                    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                        line = kind.partition(b" HTTP")[0]
                        client.sendall(kind.replace(line, f"GET {address}".encode()))
                        assert client.recv(9) == b"HTTP/1.1 "
            process.send_signal(signal.SIGTERM)
            log, _ = process.communicate(timeout=60)
        assert log.count(b"[redacted]") >= 3 * len(ADDRESSES) - 6
        assert SECRET.encode() not in log


_GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost/web/?token=%b\r\n\r\n" % SECRET.encode()
_PLAIN = """
import uvicorn
from logging_server import Add, LoggedEnvironment, Total
from openenv.core.env_server.app import create_fastapi_app, listen

with listen("127.0.0.1", 0) as listener:
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(create_fastapi_app(LoggedEnvironment, Add, Total), log_level="debug")
    uvicorn.Server(config).run(sockets=[listener])
"""


class TestConfig:
    def test_a_program_s_own_handlers_stay_unless_a_format_is_asked_for(self) -> None:
        assert logging.getLogger().handlers, "pytest has some"
        assert "root" not in log_config("info")
        assert log_config("info", "text")["root"]["level"] == "INFO"

    def test_a_worker_s_records_say_so(self) -> None:
        formatters = of_worker(log_config("info", "json"), "3")["formatters"]
        formatter = logging.config.DictConfigurator({}).configure_formatter(formatters["openenv"])
        assert isinstance(formatter, logging.Formatter)
        assert json.loads(formatter.format(record("hello")))["worker"] == "3"
        assert of_worker(log_config("info"), "3").get("formatters") == {}


class LoggingServer:
    """A running ``logging_server.py``."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self._process = process
        self.port = int(process.stdout.readline())
        self.url = f"ws://127.0.0.1:{self.port}/ws"

    def end(self) -> list[str]:
        """End it in order, and return the lines of its log."""
        self._process.send_signal(signal.SIGTERM)
        _, log = self._process.communicate(timeout=60)
        return log.splitlines()

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@contextmanager
def logging_server(log_format: str = "json", log_level: str = "debug") -> Iterator[LoggingServer]:
    command = [sys.executable, str(PROGRAMS / "logging_server.py"), log_format, log_level]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield LoggingServer(process)
        finally:
            process.kill()


def log_of(visit: Callable[[LoggingServer], None]) -> list[dict[str, Any]]:
    """Return what a server logs above debug because of a visit, but for uvicorn's word of requests and of its life."""
    with logging_server() as server:
        visit(server)
        with Wire(server.url) as wire:  # it is alive, and done with what came before
            assert wire.reset()["type"] == "observation"
        records = [json.loads(line) for line in server.end()]
    assert all(record["logger"].startswith(("openenv", "uvicorn", "asyncio", "websockets")) for record in records)
    told = [record for record in records if record["level"] != "debug" and record["logger"] != "uvicorn.access"]
    return [record for record in told if not re.search(_OF_ITS_LIFE, record["message"])]


_OF_ITS_LIFE = (
    r"\[accepted\]|connection open|Started server|Waiting for application|Application (startup|shutdown) complete|"
    r"Uvicorn running|Shutting down|Finished server|drain"
)


def close_cleanly(server: LoggingServer) -> None:
    with Wire(server.url) as legacy, V1Wire(server.url) as v1:
        legacy.reset()
        v1.do("reset", v1.open())


def cut(server: LoggingServer) -> None:
    for wire in (Wire(server.url), V1Wire(server.url)):
        wire.reset() if type(wire) is Wire else wire.open()  # type: ignore[attr-defined]
        wire.cut()


def go_without_a_goodbye(server: LoggingServer) -> None:
    wire = V1Wire(server.url)
    wire.open()
    wire.socket.socket.shutdown(socket.SHUT_RDWR)
    wire.socket.socket.close()


def shake_half_a_hand(server: LoggingServer) -> None:
    for part in (HANDSHAKE[:40], HANDSHAKE[:-2], b"GET /ws HTTP/1.1\r\n\r\n", b"\x16\x03\x01 no HTTP at all \r\n\r\n"):
        with server.raw() as raw:
            raw.sendall(part)
    with server.raw() as raw:
        raw.sendall(HANDSHAKE)  # and go before the answer


def send_nonsense(server: LoggingServer) -> None:
    for frame in (
        b"\x81\x82\0\0\0\0\xff\xfe",
        b"\xff\xff\xff\xff",
        b"\x81\x02{}",
        b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff",
    ):
        with server.raw() as raw:
            raw.sendall(HANDSHAKE)
            assert b"101" in raw.recv(4096)
            raw.sendall(frame)
            raw.shutdown(socket.SHUT_WR)  # else the server waits ten seconds for that, after it has refused the frame
            while raw.recv(4096):
                pass
    for text in ("{", "[1]", '{"type":"bogus"}', "\0"):
        with Wire(server.url) as legacy, V1Wire(server.url) as v1:
            assert legacy.ask(text)["type"] == v1.ask(text)["type"] == "error"


def kill_the_client(server: LoggingServer) -> None:
    program = f"""
import os
from websockets.sync.client import connect
with connect({server.url!r}, proxy=None, subprotocols=["openenv.v1"]) as socket:
    socket.send('{{"type":"open","id":1}}')
    socket.recv()
    print("open", flush=True)
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (killed.returncode, killed.stdout) == (-9, "open\n")


class TestEndings:
    def test_a_clean_one_is_nothing_to_tell(self) -> None:
        assert log_of(close_cleanly) == []

    @pytest.mark.parametrize(
        ("leave", "count"), [(cut, 2), (go_without_a_goodbye, 1), (kill_the_client, 1)], ids=["cut", "gone", "killed"]
    )
    def test_an_abnormal_one_is_a_line_and_no_traceback(self, leave: Any, count: int) -> None:
        told = log_of(leave)
        gone = [record for record in told if "went without" in record["message"] or "disconnected" in record["message"]]
        assert len(gone) == count
        assert all(record["level"] == "info" and "traceback" not in record for record in told)

    @pytest.mark.parametrize("visit", [shake_half_a_hand, send_nonsense])
    def test_what_clients_do_wrong_is_no_fault_of_the_server_s(self, visit: Any) -> None:
        told = log_of(visit)
        assert [record for record in told if record["level"] != "info" or "traceback" in record] == []


def test_what_an_environment_raises_has_its_traceback_and_its_session() -> None:
    with logging_server() as server, Wire(server.url) as legacy, V1Wire(server.url) as v1:
        name = v1.open()
        for wire in (legacy, v1):
            step = partial_step(wire, name)
            step("reset")
            assert step("step", amount=0)["data"]["code"] == "EXECUTION_ERROR"
            step("step", amount=1)
        records = [json.loads(line) for line in server.end()]
    failures = [record for record in records if record["level"] == "error"]
    assert len(failures) == 2
    assert all('raise ValueError("kaboom")' in record["traceback"] for record in failures)
    assert failures[1]["session"] == name[:13] != failures[0]["session"]
    authors = [record for record in records if record["logger"] == "the_author"]
    assert [record["message"] for record in authors] == ["one at a time"] * 2


def partial_step(wire: Wire, name: str) -> Callable[..., dict[str, Any]]:
    """Drive a session the same way on both wires."""
    if isinstance(wire, V1Wire):
        return lambda kind, **data: wire.do(kind, name, **data)
    return lambda kind, **data: wire.ask({"type": kind, "data": data})


def test_text_by_default_and_only_what_is_severe_enough() -> None:
    with logging_server("text", "warning") as server:
        close_cleanly(server)
        cut(server)
        with Wire(server.url) as wire:
            wire.reset()
            wire.step(amount=1)
        log = server.end()
    assert len(log) == 1
    assert re.fullmatch(r"[-0-9]+ [:0-9]+\.\d{3} WARNING the_author: one at a time", log[0])


SERVED = """
from openenv.core.env_server import create_app, server_main
from tests.support.environments.common import Add, CounterEnvironment, Total

app = create_app(CounterEnvironment, Add, Total)
if __name__ == "__main__":
    server_main(app)
"""


@pytest.mark.parametrize(
    ("command", "variables", "expected"),
    [
        (("uvicorn", "served:app"), {"OPENENV_LOG_FORMAT": "json"}, "info"),
        (("uvicorn", "served:app"), {"OPENENV_LOG_FORMAT": "json", "OPENENV_LOG_LEVEL": "debug"}, "debug"),
        (("served",), {"OPENENV_LOG_FORMAT": "json", "OPENENV_LOG_LEVEL": "debug"}, "debug"),
        (("served", "--log-format", "json", "--log-level", "debug"), {"OPENENV_LOG_LEVEL": "critical"}, "debug"),
        (("openenv.cli", "serve", "catch"), {"OPENENV_LOG_FORMAT": "json", "OPENENV_LOG_LEVEL": "debug"}, "debug"),
    ],
    ids=["uvicorn", "uvicorn-debug", "main", "main-with-options", "serve"],
)
def test_variables_say_how_each_program_that_serves_writes_its_log(
    tmp_path: Path, command: tuple[str, ...], variables: dict[str, str], expected: str
) -> None:
    (tmp_path / "served.py").write_text(SERVED)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", port],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, **variables},
    )
    with process:
        eventually(lambda: answers(f"http://127.0.0.1:{port}/health"), "it answers")
        with Wire(f"ws://127.0.0.1:{port}/ws") as wire:
            wire.reset()
            wire.cut()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    levels = [json.loads(line)["level"] for line in log.splitlines()]
    assert expected in levels


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return bool(response.status == 200)
    except urllib.error.URLError:  # it does not listen yet
        return False


def test_another_value_of_a_variable_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_LOG_FORMAT", "xml")
    with pytest.raises(ConfigurationError, match=r"OPENENV_LOG_FORMAT is 'xml'; expected 'text' or 'json'"):
        LogSettings.from_variables()
