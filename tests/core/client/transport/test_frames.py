"""Frames of whole messages are told from all others, however a stream is cut into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from openenv.core.client.transport.frames import FrameSplitter, text_frame

LONGEST = 70_000
MESSAGES = (Opcode.TEXT, Opcode.BINARY)
LENGTHS = st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, LONGEST])
FRAMES = st.builds(
    lambda opcode, length, fin: Frame(opcode, b"x" * (min(length, 125) if opcode >= Opcode.CLOSE else length), fin),
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG]),
    LENGTHS,
    st.booleans(),
).map(lambda frame: Frame(frame.opcode, frame.data, True) if frame.opcode >= Opcode.CLOSE else frame)


def whole(frame: Frame) -> bool:
    return frame.opcode in MESSAGES and frame.fin


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 2 * LONGEST), max_size=12))
def test_a_stream_in_any_pieces_gives_its_frames(frames: list[Frame], cuts: list[int]) -> None:
    written = [frame.serialize(mask=False) for frame in frames]
    stream = b"".join(written)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = FrameSplitter()

    parts = [part for start, end in pairwise(edges) for part in splitter.split(stream[start:end], LONGEST)]

    assert b"".join(part for _, part in parts) == stream
    messages = [part[head:] for head, part in parts if head]
    assert messages == [bytes(frame.data) for frame in frames if whole(frame)]
    assert [part for head, part in parts if head] == [
        each for frame, each in zip(frames, written, strict=True) if whole(frame)
    ]


def test_a_frame_above_the_limit_is_handed_on_at_once() -> None:
    begun = Frame(Opcode.TEXT, b"x" * (LONGEST + 1)).serialize(mask=False)[:50]
    assert FrameSplitter().split(begun, LONGEST) == [(0, begun)]


def test_what_a_server_may_not_send_is_handed_on() -> None:
    masked = Frame(Opcode.TEXT, b"hello").serialize(mask=True)
    compressed = b"\xc1\x05hello"
    unknown = b"\x83\x00"
    for frame in (masked, compressed, unknown):
        parts = FrameSplitter().split(frame, LONGEST)
        assert parts[0] == (0, frame[: len(parts[0][1])])
        assert len(parts[0][1]) >= 2, "the library sees what breaks the rules, whatever follows"


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536])
def test_a_server_reads_what_is_written(length: int) -> None:
    server = Protocol(Side.SERVER, state=State.OPEN)
    server.receive_data(text_frame(b"y" * length))
    (frame,) = server.events_received()
    assert isinstance(frame, Frame)
    assert (frame.opcode, frame.fin, bytes(frame.data)) == (Opcode.TEXT, True, b"y" * length)


def test_masks_differ() -> None:
    assert len({text_frame(b"hello") for _ in range(8)}) > 1
