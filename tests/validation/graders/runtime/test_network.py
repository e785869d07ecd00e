"""The measured network is compared with the declared one; what was not measured is skipped."""

import json
from typing import Any

import pytest
from tests.support.validated import subject

from openenv.validation.graders import Grader
from openenv.validation.graders.runtime import NetworkPolicyGrader
from openenv.validation.types import CheckStatus

_REACHED, _DENIED, _UNKNOWN = ({"result": result} for result in ("reachable", "denied", "inconclusive"))
_NO_NETWORK = {"mode": "no-network"}


def evidence(mode: str = "no-network", **changes: Any) -> str:
    """Return evidence of a subject that keeps to its network."""
    is_public = mode == "public"
    measured = {
        "requested_mode": mode,
        "subject_network_mode": "bridge" if is_public else "none",
        "namespace": {"interfaces": ["lo"], "default_route": is_public, "ipv6_non_loopback": 0},
        "probes": [{"kind": "tcp", "control": _REACHED, "subject": _REACHED if is_public else _DENIED}],
    }
    return json.dumps({**measured, **changes})


def _graded(network: str | None, declared: dict[str, Any]) -> tuple[CheckStatus, list[str]]:
    grader = NetworkPolicyGrader()
    assert isinstance(grader, Grader)
    result = grader.run(subject(measured_network=network, network=declared))
    return result.status, result.evidence


@pytest.mark.parametrize("mode", ["no-network", "public"])
def test_kept_policy_passes(mode: str) -> None:
    assert _graded(evidence(mode), {"mode": mode}) == (CheckStatus.PASS, [f"measured network is {mode}"])


@pytest.mark.parametrize(
    ("network", "declared", "line"),
    [
        (None, _NO_NETWORK, "network evidence is unavailable"),
        (
            evidence(),
            {"mode": "allowlist", "allowed_hosts": ["example.org"]},
            "allowlist network grading is not implemented",
        ),
    ],
)
def test_what_can_not_be_graded_is_skipped(network: str | None, declared: dict[str, Any], line: str) -> None:
    assert _graded(network, declared) == (CheckStatus.SKIP, [line])


@pytest.mark.parametrize(
    "probes",
    [
        [],
        [{"kind": "tcp", "control": _DENIED, "subject": _DENIED}],
        [{"kind": "tcp", "control": _REACHED, "subject": _UNKNOWN}],
        [{"kind": "udp", "control": _REACHED, "subject": _DENIED}],
    ],
)
def test_policy_without_a_counted_tcp_probe_is_skipped(probes: list[Any]) -> None:
    assert _graded(evidence(probes=probes), _NO_NETWORK)[0] is CheckStatus.SKIP


@pytest.mark.parametrize("network", ["", "{}", "[]", "7", evidence(more=1), evidence(probes=[{"kind": "smtp"}])])
def test_malformed_evidence_fails(network: str) -> None:
    assert _graded(network, _NO_NETWORK) == (CheckStatus.FAIL, ["malformed network evidence"])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"requested_mode": "public"}, "evidence measured public, declared no-network"),
        ({"subject_network_mode": "bridge"}, "network mode is bridge, expected none"),
        (
            {"namespace": {"interfaces": ["eth0", "lo"], "default_route": False, "ipv6_non_loopback": 0}},
            "interfaces are eth0, lo, expected lo",
        ),
        (
            {"namespace": {"interfaces": ["lo"], "default_route": True, "ipv6_non_loopback": 0}},
            "there is a default route",
        ),
        (
            {"namespace": {"interfaces": ["lo"], "default_route": False, "ipv6_non_loopback": 2}},
            "2 IPv6 addresses are not of the loopback interface",
        ),
        ({"probes": [{"kind": "udp", "control": _REACHED, "subject": _REACHED}]}, "udp probe was reachable"),
    ],
)
def test_broken_policy_fails(changes: dict[str, Any], line: str) -> None:
    assert _graded(evidence(**changes), _NO_NETWORK) == (CheckStatus.FAIL, [line])


def test_public_network_that_is_not_there_fails() -> None:
    probes = [{"kind": "tcp", "control": _REACHED, "subject": _DENIED}]
    assert _graded(evidence("public", probes=probes), {"mode": "public"}) == (
        CheckStatus.FAIL,
        ["tcp probe was denied"],
    )
