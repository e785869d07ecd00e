"""Runs probes, all at once, and waits for none of them for long."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from openenv.core.client.blocking import Attempt
from openenv.doctor import confinement, machine, packages, programs
from openenv.doctor.finding import Finding, Status

Probe = Callable[[], Finding]
LONGEST_S = 1.8
"""Seconds after which a probe that has not answered is abandoned."""


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
    """Run probes at once."""
    attempts = {name: Attempt(probe) for name, probe in wanted.items()}
    deadline = time.monotonic() + longest_s
    return [_finding(name, attempt, deadline, longest_s) for name, attempt in attempts.items()]


def first_missing(findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding of something that is missing."""
    return next((finding for finding in findings if finding.status is Status.MISSING), None)


def _finding(name: str, attempt: Attempt[Finding], deadline: float, longest_s: float) -> Finding:
    attempt.join(max(0.0, deadline - time.monotonic()))
    if attempt.error is not None:  # any fault of this machine is the probe's finding
        error = attempt.error
        return Finding(name, Status.UNSURE, f"it could not be tried: {type(error).__name__}: {error}", "")
    return attempt.result or Finding(name, Status.UNSURE, f"no answer within {longest_s:g} s", "")
