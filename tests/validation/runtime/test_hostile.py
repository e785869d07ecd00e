"""Hostile frames: each is made for each field, and says what it is."""

from openenv.validation.runtime.hostile import hostile_frames

ACTION = {
    "type": "object",
    "properties": {
        "kind": {"const": "run", "type": "string"},
        "code": {"type": "string"},
        "times": {"type": "integer"},
        "metadata": {"type": "object"},
    },
    "required": ["code", "times"],
}


def test_each_field_gets_each_value_beside_valid_others() -> None:
    frames = {
        what: (frame, is_program) for what, frame, is_program in hostile_frames(ACTION, {"code": "1", "times": 2})
    }
    numbers = [(what, frame) for what, (frame, _) in frames.items() if what.startswith("NaN as ")]
    assert [what.rpartition(".")[2] for what, _ in numbers] == ["code", "times"]
    assert [str(frame).partition('"data": ')[2] for _, frame in numbers] == [
        '{"times": 2, "kind": "run", "code": NaN}}',
        '{"code": "1", "kind": "run", "times": NaN}}',
    ]
    programs = {what.rpartition(".")[2] for what, (_, is_program) in frames.items() if is_program}
    assert programs == {"code"}


def test_without_a_schema_there_are_frames_that_are_no_actions() -> None:
    frames = [frame for _, frame, _ in hostile_frames({}, {})]
    assert b"\x00\xff\xfe" in frames
    assert "not json" in frames
