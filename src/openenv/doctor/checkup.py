"""Runs probes, all at once, and waits for none of them for long."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from openenv.doctor import confinement, machine, packages, programs
from openenv.doctor.finding import Finding, Status

Probe = Callable[[], Finding]
LONGEST_S = 1.8
"""Seconds after which a probe that has not answered is left to itself."""


def probes() -> dict[str, Probe]:
    """Return every probe by its name, those that take longest first."""
    return {
        "openenv": packages.openenv,
        "browser": confinement.browser,
        "sandbox": confinement.sandbox,
        "docker": programs.docker,
        "gpu": programs.gpu,
        "uv": programs.uv,
        "memory": machine.memory,
        "disk": machine.disk,
        "descriptors": machine.descriptors,
        "port": machine.port,
        "journal": machine.journal,
        **{f"extra {name}": partial(packages.extra, name) for name in packages.extras()},
    }


def examine(wanted: Mapping[str, Probe], longest_s: float = LONGEST_S) -> list[Finding]:
    """Run probes at once.

    Args:
        wanted: The probes, by name.
        longest_s: Seconds to wait for all of them together.

    Returns:
        What they found, in their order.
    """
    answers: queue.SimpleQueue[Finding] = queue.SimpleQueue()
    for name, probe in wanted.items():
        # Daemons: a probe that hangs must not keep the command from ending.
        threading.Thread(target=_answer, args=(answers, name, probe), daemon=True).start()
    found = _gathered(answers, len(wanted), time.monotonic() + longest_s)
    late = Finding("", Status.UNSURE, f"no answer within {longest_s:g} s", "")
    return [found.get(name) or Finding(name, late.status, late.detail, "") for name in wanted]


def first_missing(findings: Sequence[Finding]) -> Finding | None:
    """Return the first thing that is missing."""
    return next((finding for finding in findings if finding.status is Status.MISSING), None)


def _answer(answers: "queue.SimpleQueue[Finding]", name: str, probe: Probe) -> None:
    try:
        answers.put(probe())
    except Exception as error:  # noqa: BLE001  # any fault of this machine is the probe's finding
        answers.put(Finding(name, Status.UNSURE, f"it could not be tried: {type(error).__name__}: {error}", ""))


def _gathered(answers: "queue.SimpleQueue[Finding]", count: int, deadline: float) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    while len(found) < count:
        try:
            finding = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[finding.name] = finding
    return found
