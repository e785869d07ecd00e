"""The channel: messages whole and in order, sockets with the message that brought them."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.workers.channel import Channel, ChannelMessage, Kind


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    supervisor, worker = Channel.pair()
    yield supervisor, worker
    supervisor.close()
    worker.close()


def everything(channel: Channel) -> list[ChannelMessage]:
    """Read until there is nothing more."""
    channel.connection.setblocking(False)
    messages: list[ChannelMessage] = []
    while True:
        try:
            messages += channel.receive()
        except (BlockingIOError, EOFError):
            return messages


@given(st.lists(st.tuples(st.sampled_from([Kind.READY, Kind.FAILED, Kind.CLOSED]), st.integers() | st.text())))
def test_messages_arrive_whole_and_in_order(sent: list[tuple[Kind, Any]]) -> None:
    supervisor, worker = Channel.pair()
    for kind, value in sent:
        worker.send(kind, value)
    worker.close()
    assert [(message.kind, message.value) for message in everything(supervisor)] == sent
    supervisor.close()


def test_a_message_longer_than_one_reading_arrives_whole(ends: tuple[Channel, Channel]) -> None:
    supervisor, worker = ends
    text = "é" * 30_000
    worker.send(Kind.FAILED, text)
    worker.send(Kind.READY)
    assert [message.value for message in everything(supervisor)] == [text, None]


@given(st.lists(st.booleans(), max_size=20))
def test_each_socket_comes_with_its_message(carrying: list[bool]) -> None:
    supervisor, worker = Channel.pair()
    for number, carries in enumerate(carrying):
        if carries:
            near, far = socket.socketpair()
            with near, far:
                supervisor.send(Kind.CLIENT, number, far)
                near.send(bytes([number]))
        else:
            supervisor.send(Kind.CLOSED, number)
    supervisor.close()
    received = everything(worker)
    assert [message.value for message in received] == list(range(len(carrying)))
    for message, carries in zip(received, carrying, strict=True):
        assert (message.carried is not None) is carries
        if message.carried is not None:
            with message.carried as carried:
                assert carried.recv(9) == bytes([message.value])
                assert not os.get_inheritable(carried.fileno())
    worker.close()


def test_the_end_of_the_other_side_shows(ends: tuple[Channel, Channel]) -> None:
    supervisor, worker = ends
    with pytest.raises(BlockingIOError):
        supervisor.receive()
    worker.close()
    with pytest.raises(EOFError):
        supervisor.receive()
    with pytest.raises(OSError, match="Broken pipe"):
        supervisor.send(Kind.READY)


def test_a_worker_that_reads_nothing_does_not_block_its_supervisor(ends: tuple[Channel, Channel]) -> None:
    supervisor, worker = ends
    sent: list[int] = []
    near, far = socket.socketpair()
    with near, far, suppress(BlockingIOError):
        for number in range(100_000):
            supervisor.send(Kind.CLIENT, number, far)
            sent.append(number)
    received = everything(worker)
    assert 100 < len(sent) < 100_000
    assert [message.value for message in received] == sent
    for message in received:
        assert message.carried is not None
        message.carried.close()


def test_a_process_that_may_open_no_more_files_loses_the_socket_and_nothing_else(ends: tuple[Channel, Channel]) -> None:
    supervisor, worker = ends
    near, far = socket.socketpair()
    with near, far:
        supervisor.send(Kind.CLIENT, "lost", far)
        supervisor.send(Kind.CLIENT, "kept", far)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            (lost,) = worker.receive()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        (kept,) = worker.receive()
    assert (lost.value, lost.carried) == ("lost", None)
    assert kept.value == "kept"
    assert kept.carried is not None
    kept.carried.close()
