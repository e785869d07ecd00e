"""A client's connection, against servers that do not behave."""

import asyncio
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import PROGRAMS, RunningServer, ServerProcess, answering, eventually
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection

from openenv.core.client.generic import GenericEnvClient
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
    ResponseTimeoutError,
)

OBSERVATION = json.dumps({"type": "observation", "data": {"observation": {"total": 1}, "reward": None, "done": False}})


def echo_numbers(connection: ServerConnection) -> None:
    """Answer each step with the number that it carries."""
    for frame in connection:
        number = json.loads(frame)["data"].get("number", 0)
        connection.send(json.dumps({"type": "observation", "data": {"observation": {"number": number}, "done": False}}))


@contextmanager
def listening(play: Callable[[socket.socket], None]) -> Iterator[str]:
    """A TCP server that plays something else than WebSocket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    play(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def blocking(base_url: str, **settings: Any) -> Any:
    """A client for blocking use, of which the type checker asks nothing."""
    return GenericEnvClient(base_url=base_url, **settings)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def test_asyncio_reads_in_pieces_that_need_no_memory_from_the_kernel(counter_server: RunningServer) -> None:
    async with GenericEnvClient(base_url=counter_server.url) as client:
        session = client._client_session
        assert session is not None
        transport: Any = session.connection.transport
        # No documented attribute: where asyncio has none any more, each answer costs more than it needs to.
        assert type(transport).max_size > 128 * 1024
        assert transport.max_size == 64 * 1024


class TestOpening:
    def test_nobody_listens(self) -> None:
        port = free_port()
        client = blocking(base_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectionFailedError, match=rf"Failed to connect to ws://127.0.0.1:{port}/ws: "):
            client.reset()

    async def test_nobody_listens_async(self) -> None:
        with pytest.raises(ConnectionFailedError):
            await GenericEnvClient(base_url=f"http://127.0.0.1:{free_port()}").connect()

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x15\x03\x01\x00\x02\x02\x46",
            b"",
        ],
    )
    def test_something_else_listens(self, answer: bytes) -> None:
        def play(connection: socket.socket) -> None:
            connection.recv(4096)
            connection.sendall(answer)

        with listening(play) as url, pytest.raises(ConnectionFailedError):
            blocking(base_url=url, connect_timeout_s=3).reset()

    def test_a_handshake_that_never_ends_is_given_up(self) -> None:
        ended = threading.Event()

        def play(_connection: socket.socket) -> None:
            ended.wait(60)

        with listening(play) as url:
            begun = time.monotonic()
            with pytest.raises(ConnectionFailedError):
                blocking(base_url=url, connect_timeout_s=0.3).reset()
            ended.set()
            assert time.monotonic() - begun < 30

    @pytest.mark.parametrize(
        "url",
        ["http://localhost:99999", "http://", "http://[::1", "localhost:nope", "ftp://127.0.0.1", "http://a b", ""],
    )
    def test_an_address_that_is_none(self, url: str) -> None:
        with pytest.raises((ConnectionFailedError, ConfigurationError)):
            blocking(base_url=url, connect_timeout_s=3).reset()

    @pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é\u2028"])
    def test_a_header_cannot_smuggle_another(self, value: str) -> None:
        seen: list[Any] = []

        def handler(connection: ServerConnection) -> None:
            assert connection.request is not None
            seen.append(connection.request.headers)

        with answering(handler) as url:
            client = blocking(base_url=url, headers={"X-Token": value}, message_timeout_s=2)
            with pytest.raises((OpenEnvError, ValueError)):
                client.reset()
        assert all("X-Evil" not in headers for headers in seen)


class TestAnswers:
    async def test_calls_at_the_same_time_get_each_its_own_answer(self) -> None:
        with answering(echo_numbers) as url:
            async with GenericEnvClient(base_url=url) as client:
                results = await asyncio.gather(*(client.step({"number": number}) for number in range(200)))
                assert [result.observation["number"] for result in results] == list(range(200))

    async def test_a_cancelled_call_does_not_mispair_the_answers_behind_it(self) -> None:
        with answering(echo_numbers) as url:
            async with GenericEnvClient(base_url=url) as client:
                for first in range(0, 300, 3):
                    calls = [asyncio.ensure_future(client.step({"number": first + offset})) for offset in range(3)]
                    await asyncio.sleep(0)
                    calls[1].cancel()
                    answers = await asyncio.gather(*calls, return_exceptions=True)
                    assert isinstance(answers[1], asyncio.CancelledError)
                    assert [answers[at].observation["number"] for at in (0, 2)] == [first, first + 2]  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "answer",
        [
            "not json",
            "",
            "[1]",
            "null",
            "3",
            "{}",
            '{"type": "observation"}',
            '{"type": "observation", "data": null}',
            '{"type": "observation", "data": [1]}',
            '{"type": "error", "data": null}',
            '{"type": "error", "data": "text"}',
            '{"type": "error"}',
            '{"type": "bogus", "data": {}}',
            b"\xff\xfe",
        ],
        ids=repr,
    )
    def test_an_answer_that_is_none_is_a_typed_error(self, answer: str | bytes) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                connection.send(answer)

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=60)
            with pytest.raises(InvalidAnswerError, match="Expected the server to answer"):
                client.reset()
            client.close()

    def test_an_answer_in_fragments_with_pings_between_them(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                middle = len(OBSERVATION) // 2

                def pieces(middle: int = middle) -> Iterator[str]:
                    yield OBSERVATION[:middle]
                    connection.ping()
                    yield OBSERVATION[middle:]

                connection.send(pieces())

        with answering(handler) as url, GenericEnvClient(base_url=url).sync() as client:
            assert client.reset().observation == {"total": 1}
            assert client.reset().observation == {"total": 1}

    @pytest.mark.parametrize(
        "frames",
        [b"\x01\x01{\x81\x02{}", b"\x81\x82mask{}", b"\xc1\x02{}"],
        ids=["a message inside another", "masked", "compressed"],
    )
    def test_a_frame_that_breaks_the_rules_loses_the_connection(self, frames: bytes) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.recv()
            connection.socket.sendall(frames)
            connection.recv()

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=60)
            with pytest.raises(ConnectionLostError):
                client.reset()
            client.close()

    def test_an_answer_above_the_client_s_limit_says_which_limit(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                connection.send(" " * 200_000 + OBSERVATION)

        with answering(handler) as url:
            client = blocking(base_url=url, max_message_size_mb=0.1, message_timeout_s=60)
            with pytest.raises(InvalidAnswerError, match=r"max_message_size_mb.* 200\d\d\d bytes .* 104857 bytes"):
                client.reset()
            client.close()

    def test_an_answer_in_a_binary_frame_is_taken(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                connection.send(OBSERVATION.encode())

        with answering(handler) as url, GenericEnvClient(base_url=url).sync() as client:
            assert client.reset().observation == {"total": 1}

    def test_after_an_answer_that_is_none_the_session_goes_on(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for answer in ("not json", OBSERVATION):
                connection.recv()
                connection.send(answer)
            connection.recv()

        with answering(handler) as url, GenericEnvClient(base_url=url).sync() as client:
            with pytest.raises(InvalidAnswerError, match="'not json'"):
                client.reset()
            assert client.reset().observation == {"total": 1}

    def test_a_large_answer_below_the_limit_arrives(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                connection.send(" " * 5_000_000 + OBSERVATION)

        with answering(handler) as url, GenericEnvClient(base_url=url).sync() as client:
            assert client.reset().observation == {"total": 1}


class TestLoss:
    @pytest.mark.parametrize("how", ["close", "reset", "end"])
    def test_the_server_goes_before_it_answers(self, how: str) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.recv()
            if how == "reset":
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.socket.close()
            elif how == "end":
                connection.socket.shutdown(socket.SHUT_RDWR)
            else:
                connection.close(4000, "tired")

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=60)
            begun = time.monotonic()
            with pytest.raises(ConnectionLostError) as lost:
                client.reset()
            assert time.monotonic() - begun < 30
            assert "new session" in str(lost.value)
            if how == "close":
                assert "4000 tired" in str(lost.value)

    @pytest.mark.parametrize("subprotocols", [None, ["openenv.v1"]], ids=["legacy", "v1"])
    def test_a_server_that_says_good_bye_and_stays(self, subprotocols: Any) -> None:
        """The TCP connection may stay open for long."""
        ended = threading.Event()

        def play(connection: socket.socket) -> None:
            protocol = ServerProtocol(subprotocols=subprotocols)
            while protocol.state is not State.CLOSING:
                protocol.receive_data(connection.recv(4096))
                for event in protocol.events_received():
                    if isinstance(event, Request):
                        protocol.send_response(protocol.accept(event))
                    else:
                        protocol.send_close(1001, "going")
                connection.sendall(b"".join(protocol.data_to_send()))
            ended.wait(60)

        with listening(play) as url:
            client = blocking(base_url=url, message_timeout_s=60)
            begun = time.monotonic()
            # On v1 the next connection is accepted only afterwards.
            calling = threading.Timer(60 if subprotocols is None else 3, ended.set)
            calling.start()
            with pytest.raises(ConnectionLostError, match="1001 going"):
                client.reset()
            if subprotocols is None:
                assert time.monotonic() - begun < 30
                calling.cancel()
                ended.set()
            calling.join()
            client.close()

    def test_a_connection_found_closed_is_opened_again(self) -> None:
        closed = threading.Semaphore(0)

        def handler(connection: ServerConnection) -> None:
            connection.recv()
            connection.send(OBSERVATION)
            connection.close()
            closed.release()

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=60)
            for _ in range(20):
                assert client.reset().observation == {"total": 1}
                assert closed.acquire(timeout=60)
            client.close()

    async def test_a_connection_found_closed_is_opened_again_async(self) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.recv()
            connection.send(OBSERVATION)
            connection.close()

        with answering(handler) as url:
            client = GenericEnvClient(base_url=url, message_timeout_s=60)
            for _ in range(20):
                result = await client.reset()
                assert result.observation == {"total": 1}
                link = client._client_session  # nothing public shows that the server has closed
                assert link is not None
                await link.connection.wait_closed()
            await client.close()

    def test_no_answer_in_time_drops_the_connection_and_a_late_answer_pairs_with_nothing(self) -> None:
        release = threading.Event()
        connections: list[ServerConnection] = []

        def handler(connection: ServerConnection) -> None:
            connections.append(connection)
            try:
                for frame in connection:
                    number = json.loads(frame)["data"]["number"]
                    if number == 1:
                        release.wait(60)
                    connection.send(
                        json.dumps({"type": "observation", "data": {"observation": {"number": number}, "done": False}})
                    )
            except ConnectionClosed:
                pass

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=0.3)
            with pytest.raises(ResponseTimeoutError, match=r"0\.3 s"):
                client.step({"number": 1})
            release.set()
            assert client.step({"number": 2}).observation == {"number": 2}
            assert len(connections) == 2
            client.close()

    async def test_a_call_that_waits_when_its_client_is_closed_does_not_blame_the_server(self) -> None:
        asked = threading.Semaphore(0)

        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                asked.release()

        with answering(handler) as url:
            client = GenericEnvClient(base_url=url)
            waiting = asyncio.ensure_future(client.reset())
            await asyncio.to_thread(asked.acquire)
            await client.close()
            with pytest.raises(ConnectionLostError, match=r"^The client closed"):
                await waiting

    async def test_no_answer_in_time_ends_every_call_that_waits_behind_it(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for _ in connection:
                pass

        with answering(handler) as url:
            client = GenericEnvClient(base_url=url, message_timeout_s=0.3)
            begun = time.monotonic()
            results = await asyncio.gather(*(client.step({"n": n}) for n in range(100)), return_exceptions=True)
            assert time.monotonic() - begun < 15, "each waited for itself"
            assert all(isinstance(result, ResponseTimeoutError | ConnectionLostError) for result in results)
            await client.close()

    def test_threads_that_share_a_client_never_hang_when_one_of_them_times_out(self) -> None:
        def handler(connection: ServerConnection) -> None:
            for frame in connection:
                if json.loads(frame)["data"]["number"] % 3:
                    connection.send(OBSERVATION)

        errors: list[BaseException] = []

        with answering(handler) as url:
            client = blocking(base_url=url, message_timeout_s=0.2)
            client.step({"number": 1})

            def call(thread: int) -> None:
                for number in range(20):
                    try:
                        client.step({"number": thread * 20 + number})
                    except (ResponseTimeoutError, ConnectionLostError):
                        pass
                    except BaseException as error:  # noqa: BLE001  # reported below
                        errors.append(error)

            threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(8)]
            begun = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert not errors
            assert time.monotonic() - begun < 12
            client.close()

    def test_a_server_that_freezes_is_found_by_pings(self) -> None:
        with ServerProcess("counter_server.py", "1", "0", "1") as server:
            client = blocking(
                base_url=server.url,
                message_timeout_s=60,
                websocket_ping_interval_s=0.2,
                websocket_ping_timeout_s=0.2,
            )
            client.reset()
            server.process.send_signal(19)  # SIGSTOP
            begun = time.monotonic()
            with pytest.raises(ConnectionLostError, match="websocket_ping_timeout_s"):
                client.step({"amount": 1})
            assert time.monotonic() - begun < 30
            server.process.send_signal(18)  # SIGCONT
            client.close()


@pytest.mark.parametrize("way", ["async", "sync"])
def test_a_program_that_ends_without_closing_leaves_no_session(serve: Serve, way: str) -> None:
    server = serve(resume_window_s=180)
    program = [sys.executable, str(PROGRAMS / "leaving_client.py"), server.url, way]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("done\n", 0)
    eventually(lambda: server.sessions.active_sessions == 0, "sooner than the window passes")


@pytest.mark.parametrize("use", ["client.reset()", "client.sync().vector(2)", "client.schemas()", "client.tasks()"])
def test_a_server_that_is_not_running_is_one_sentence_and_no_chain_of_sockets(use: str) -> None:
    program = f"from openenv import GenericEnvClient\nclient = GenericEnvClient(base_url='http://127.0.0.1:9')\n{use}"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    *frames, sentence = failed.stderr.splitlines()
    assert sentence.endswith(
        "Is the server running? Start it, for example with `openenv serve NAME`, or correct the address."
    )
    assert "http://127.0.0.1:9/" in sentence or "ws://127.0.0.1:9/ws" in sentence
    assert failed.stderr.count("Traceback") == 1
    assert len(frames) < 25
