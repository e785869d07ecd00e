"""Measured network of a subject: what it reaches, beside what an unrestricted process reaches."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from openenv.core.exceptions import ProviderError
from openenv.validation.providers import network_probe
from openenv.validation.runtime.contracts import NetworkEvidence

MEASURE_TIMEOUT_S = 120.0
"""Seconds that a measurement may take."""

_PROGRAM = ["-I", "-c", Path(network_probe.__file__).read_text("utf-8")]


class Sink:
    """Program that answers over TCP and UDP, while this context lasts.

    Args:
        python: Command that runs Python in an unrestricted network.

    Attributes:
        address: Its host and its two ports.
    """

    def __init__(self, python: Sequence[str]) -> None:
        self._command = [*python, *_PROGRAM, "sink"]
        self.address: list[str] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ProviderError(f"The sink of the network's measurement does not start: {self._end()}")
        self.address = [str(part) for part in json.loads(line)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> str:
        try:
            return self._process.communicate(timeout=MEASURE_TIMEOUT_S)[1].strip()
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.communicate()[1].strip()


def run_probe(
    python: Sequence[str], address: Sequence[str], timeout_s: float, pid: int | None = None
) -> dict[str, Any]:
    """Try to reach a sink, and return the outcome.

    Args:
        python: Command that runs Python in the network that is measured, or outside of it.
        address: Address of the sink.
        timeout_s: Seconds that it may take.
        pid: Process whose network is entered; ``None`` for the command's own.

    Raises:
        ProviderError: The program fails.
    """
    command = [*python, *_PROGRAM, "probe", *address, *([] if pid is None else [str(pid)])]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ProviderError(f"The network could not be measured within {timeout_s:g} s.") from error
    if finished.returncode != 0:
        last = finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.returncode}"]
        raise ProviderError(f"The network could not be measured: {last[0]}")
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def network_evidence(mode: str, subject_mode: str, control: dict[str, Any], subject: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence in its public form.

    Args:
        mode: Mode with which the subject was started.
        subject_mode: Mode by the provider's description of the subject.
        control: Result of ``run_probe`` from the unrestricted network.
        subject: Its result from the subject's network.

    Raises:
        ProviderError: The results are none.
    """
    try:
        probes = [
            {"kind": kind, "control": outcome, "subject": subject["outcomes"][kind]}
            for kind, outcome in control["outcomes"].items()
        ]
        evidence = NetworkEvidence.model_validate(
            {
                "requested_mode": mode,
                "subject_network_mode": subject_mode,
                "namespace": subject["namespace"],
                "probes": probes,
            }
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise ProviderError(f"The measurement of the network has no valid result: {error}") from error
    return evidence.model_dump(mode="json")
