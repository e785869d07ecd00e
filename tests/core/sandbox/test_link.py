"""The server's end of the link, with anything at the other one."""

import socket
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.sandbox.guest.frames import HEADER, MOST_HEAD_BYTES, pack
from openenv.core.sandbox.link import Link, LinkBrokenError


def received(data: bytes, most_body_bytes: int = 100, timeout_s: float = 5.0) -> object:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)  # less than a socket holds
        theirs.shutdown(socket.SHUT_WR)
        return Link(ours).receive(most_body_bytes, timeout_s)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.binary(max_size=100))
def test_what_was_written_is_read(head: dict[str, object], body: bytes) -> None:
    assert received(pack(head, body)) == (head, body)


@given(st.binary(max_size=300))
def test_anything_else_is_one_error(data: bytes) -> None:
    with pytest.raises(LinkBrokenError):
        received(data)


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(MOST_HEAD_BYTES + 1, 0),
        HEADER.pack(2, 101) + b"{}",
        HEADER.pack(2, 2**32 - 1) + b"{}",
        pack({})[:-1],
        struct.pack("!II", 2, 0) + b"[]",
        struct.pack("!II", 4, 0) + b"null",
        struct.pack("!II", 50_000, 0) + b"[" * 50_000,
        struct.pack("!II", 5002, 0) + b'{"' + b"9" * 5000,
        struct.pack("!II", 2, 0) + b"\xff\xff",
    ],
)
def test_frames_that_are_none(data: bytes) -> None:
    with pytest.raises(LinkBrokenError):
        received(data)


def test_one_that_drips_is_given_up_in_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(pack({}, b"12345")[:-1])
        with pytest.raises(LinkBrokenError):
            Link(ours).receive(5, timeout_s=0.1)


def test_one_that_does_not_read_is_given_up_in_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(LinkBrokenError):
        Link(ours).send({}, b"x" * 10_000_000, timeout_s=0.1)


@pytest.mark.parametrize("close", [socket.socket.close, lambda end: end.shutdown(socket.SHUT_RDWR)])
def test_the_other_end_is_gone(close: Callable[[socket.socket], None]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        close(theirs)
        with pytest.raises(LinkBrokenError):
            Link(ours).send({}, b"", timeout_s=1)
        with pytest.raises(LinkBrokenError):
            Link(ours).receive(5, timeout_s=1)
