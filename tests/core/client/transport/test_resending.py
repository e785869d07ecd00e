"""What is sent again on another connection, and when."""

import pytest

from openenv.core.client.transport.resending import MOST_RESENDS, Resending


class Sent:
    """Something without an answer."""

    def __init__(self, log: list[str], name: str, resends: int) -> None:
        self.log = log
        self.name = name
        self.resends = resends

    def send_again(self) -> None:
        self.resends += 1
        self.log.append(self.name)


@pytest.fixture
def log() -> list[str]:
    return []


def test_at_first_all_are_sent_together(log: list[str]) -> None:
    resending = Resending()
    for name in "abc":
        resending.add(Sent(log, name, 1))
    assert log == ["a", "b", "c"]


def test_what_was_sent_again_twice_waits_and_goes_alone_the_least_suspect_first(log: list[str]) -> None:
    resending = Resending()
    fresh, *suspects = [Sent(log, name, resends) for name, resends in (("fresh", 0), ("c", 4), ("a", 2), ("b", 3))]
    for sent in (fresh, *suspects):
        resending.add(sent)
    resending.proceed()
    assert log == ["fresh"]
    by_name = {sent.name: sent for sent in suspects}
    assert not resending.settle(fresh)
    for name, following in (("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])):
        assert log == ["fresh", *following]
        assert not resending.settle(by_name[name])


def test_what_is_given_up_while_it_waits_is_never_sent(log: list[str]) -> None:
    resending = Resending()
    first, second, third = (Sent(log, name, 2) for name in "abc")
    for sent in (first, second, third):
        resending.add(sent)
    resending.proceed()
    assert resending.settle(second)
    assert not resending.settle(second)
    assert not resending.settle(first)
    assert log == ["a", "c"]


@pytest.mark.parametrize("culprit", range(8))
def test_only_what_ends_the_connections_is_sent_too_often(log: list[str], culprit: int) -> None:
    """Whichever it is; the others are answered in their order as long as the connection lasts."""
    pending = [Sent(log, str(number), 0) for number in range(8)]
    while pending and pending[0].resends < MOST_RESENDS:
        resending = Resending()
        log.clear()
        for sent in pending:
            resending.add(sent)
        resending.proceed()
        pending = answer(resending, pending, log, str(culprit))
    assert [sent.name for sent in pending] == [str(culprit)]


def answer(resending: Resending, pending: list[Sent], log: list[str], culprit: str) -> list[Sent]:
    """Answer what has come until the culprit comes; it ends the connection with all that came together."""
    by_name = {sent.name: sent for sent in pending}
    answered = 0
    while culprit not in log and answered < len(log):
        resending.settle(by_name.pop(log[answered]))
        answered += 1
    return [sent for sent in pending if sent.name in by_name]
