"""Probes: all at once, and none is waited for for long."""

import threading
import time
from functools import partial

from openenv.doctor.checkup import examine, first_missing, probes
from openenv.doctor.finding import Finding, Status


def ready(name: str) -> Finding:
    return Finding(name, Status.READY, "here", "tests")


def test_all_run_at_once_and_come_in_their_order() -> None:
    together = threading.Barrier(3)

    def probe(name: str) -> Finding:
        together.wait(60)
        return ready(name)

    found = examine({name: partial(probe, name) for name in "cab"}, longest_s=60)
    assert found == [ready("c"), ready("a"), ready("b")]


def test_one_that_hangs_or_raises_is_told_of() -> None:
    may_end = threading.Event()

    def hang() -> Finding:
        may_end.wait(60)
        return ready("hangs")

    def fall() -> Finding:
        raise ValueError("it fell")

    began = time.monotonic()
    found = examine({"hangs": hang, "falls": fall, "works": lambda: ready("works")}, longest_s=0.5)
    assert time.monotonic() - began < 30
    may_end.set()
    assert [finding.status for finding in found] == [Status.UNSURE, Status.UNSURE, Status.READY]
    assert found[0].detail == "no answer within 0.5 s"
    assert found[1].detail == "it could not be tried: ValueError: it fell"
    assert first_missing(found) is None


def test_every_probe_finds_what_it_is_called_by() -> None:
    for finding, name in zip(examine(probes(), longest_s=60), probes(), strict=True):
        assert finding.name == name
        assert finding.detail
        assert "could not be tried" not in finding.detail
