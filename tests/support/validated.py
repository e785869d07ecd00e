"""Subjects of validation for the tests: a manifest, and evidence that a test changes."""

import json
from pathlib import Path
from typing import Any

from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifestV2
from openenv.validation.runtime.contracts import RuntimeEvidence, WireExchange

MANIFEST: dict[str, Any] = {
    "manifest_schema_version": "2",
    "name": "counter",
    "signature": "openenv.yaml",
    "reward": {"range": [0.0, 1.0], "floor_margin": 0.5},
    "resources": {"cpu": 1, "memory_mb": 512, "disk_mb": 64, "episode_timeout_s": 60},
    "capabilities": {"verifier": {"kind": "reward_channel"}},
    "types": {"tags": ["game"]},
    "execution": {},
}
SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


def manifest(**changes: Any) -> NormalizedManifestV2:
    """Make a manifest."""
    return NormalizedManifestV2.model_validate({**MANIFEST, **changes})


def subject(evidence: RuntimeEvidence | None = None, *, measured_network: str | None = None, **changes: Any) -> Subject:
    """Make a subject with evidence; changes are its manifest's."""
    return Subject(Path(), manifest(**changes), None, None, Path(), evidence, measured_network)


def observed(total: Any, *, reward: Any = 0.5, done: Any = False, **more: Any) -> str:
    """Return the frame of an observation."""
    data = {"observation": {"total": total}, "reward": reward, "done": done, **more}
    return json.dumps({"type": "observation", "data": data})


def state(count: Any, episode_id: Any = "probe") -> str:
    """Return the frame of a state."""
    return json.dumps({"type": "state", "data": {"episode_id": episode_id, "step_count": count}})


def episode(*answers: str, **changes: Any) -> RuntimeEvidence:
    """Return the evidence of an episode: answers to reset, state, step, state, step and so on."""
    reset = json.dumps({"type": "reset", "data": {"seed": 7, "episode_id": "probe"}})
    exchanges = [
        WireExchange("reset", reset, answer)
        if number == 0
        else WireExchange("state" if number % 2 else "step", "{}", answer)
        for number, answer in enumerate(answers)
    ]
    return RuntimeEvidence(tuple(exchanges), **{"observation_schema_json": json.dumps(SCHEMA), **changes})


def whole_episode(**changes: Any) -> RuntimeEvidence:
    """Return the evidence of an episode without a fault."""
    return episode(
        observed(0, reward=None), state(0), observed(1), state(1), observed(2, done=True), state(2), **changes
    )
