"""Waiting for an answer in a thread, and what is no answer."""

import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.client.transport.waiter import ThreadWaiter, invalid_answer
from openenv.core.exceptions import ConnectionLostError, InvalidAnswerError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_an_answer_that_has_come_is_not_waited_for() -> None:
    answer = ThreadWaiter()
    assert not answer.done()
    answer.set_result({"type": "state"})
    assert answer.done()
    assert answer.wait(0) == {"type": "state"}


def test_an_answer_wakes_its_thread() -> None:
    answer, answers = ThreadWaiter(), []
    thread = threading.Thread(target=lambda: answers.append(answer.wait(None)))
    thread.start()
    answer.set_result(b"no json")
    thread.join(60)
    assert answers == [b"no json"]


@pytest.mark.parametrize("early", [True, False])
def test_an_error_is_raised_in_its_thread(early: bool) -> None:
    answer, error = ThreadWaiter(), ConnectionLostError("gone")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            answer.wait(60)
        except ConnectionLostError as lost:
            raised.append(lost)

    thread = threading.Thread(target=wait)
    if early:
        answer.set_exception(error)
        thread.start()
    else:
        thread.start()
        answer.set_exception(error)
    thread.join(60)
    assert answer.done()
    assert raised == [error]


@pytest.mark.parametrize("timeout_s", [0, 0.05])
def test_no_answer_in_time(timeout_s: float) -> None:
    answer = ThreadWaiter()
    begun = time.monotonic()
    assert answer.wait(timeout_s) is None
    assert time.monotonic() - begun >= timeout_s
    answer.set_result({})  # too late, and no matter
    assert answer.done()


def test_many_threads_get_each_its_own() -> None:
    answers = [ThreadWaiter() for _ in range(300)]
    got: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda number=number: got.update({number: answers[number].wait(60)}))
        for number in range(300)
    ]
    for thread in threads:
        thread.start()
    for number in reversed(range(300)):
        answers[number].set_result({"number": number})
    for thread in threads:
        thread.join(60)
    assert got == {number: {"number": number} for number in range(300)}


@given(JSON.filter(lambda value: isinstance(value, dict | list)) | st.binary())
def test_whatever_came_is_quoted_in_short(message: Any) -> None:
    error = invalid_answer("state", message)
    assert isinstance(error, InvalidAnswerError)
    assert str(error).startswith('Expected the server to answer {"type": "state", "data": {...}} or an error, got ')
    assert len(str(error)) < 400
    assert str(error).encode()
