"""What one commit writes, and what is left of it without some sessions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from openenv.core.env_server.history.batch import ADD_CHILD, ADD_SESSION, END, START_WITH_RESET, Batch

_NOTES = st.lists(st.tuples(st.integers(1, 4), st.text(), st.booleans()), max_size=12)


def batch_of(said: list[tuple[int, str, bool]], changes: list[Any]) -> Batch:
    notes: list[Any] = [
        (session, number, "step", {"of": session}, -len(answer) if failed else len(answer))
        for number, (session, answer, failed) in enumerate(said)
    ]
    return Batch.of(1, notes, [answer for _, answer, _ in said], changes, 0.0)


@given(said=_NOTES, dropped=st.frozensets(st.integers(1, 5)))
def test_what_others_did_stays_as_it_was(said: list[tuple[int, str, bool]], dropped: frozenset[int]) -> None:
    batch = batch_of(said, [(END, {"number": number}) for number in range(1, 5)])
    assert batch.drop(dropped) == frozenset()
    kept = batch_of([one for one in said if one[0] not in dropped], [])
    told = [[note[0], *note[2:]] for note in from_json(batch.notes)]
    assert told == [[note[0], *note[2:]] for note in from_json(kept.notes)]
    assert batch.answers == kept.answers
    assert {values["number"] for _, values in batch.changes} == {1, 2, 3, 4} - dropped


def test_with_a_session_go_those_that_were_to_continue_it() -> None:
    changes = [
        (ADD_SESSION, {"number": 2}),
        (ADD_CHILD, {"number": 7, "parent": 1}),
        (ADD_CHILD, {"number": 8, "parent": 2}),
    ]
    batch = batch_of([(7, "its answer", False), (8, "stays", False)], [*changes, (START_WITH_RESET, {"number": 7})])
    assert batch.drop({1}) == {7}
    assert batch.changes == [changes[0], changes[2]]
    assert batch.answers == "stays"
