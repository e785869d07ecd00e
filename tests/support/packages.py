"""Packages with declarations for checks, as authors write them."""

from pathlib import Path
from typing import Any

import yaml

PLAN = {
    "plan_schema_version": "1",
    "reset": {"episode_id": "probe-1", "seed": 7, "options": {}},
    "actions": [{"message": "a"}, {"message": "b"}],
}
"""Planned episode of an environment that says back each message."""


def declarations(**changed: Any) -> dict[str, Any]:
    """Return the mapping ``validation:``, with some of its keys changed."""
    return {
        "reward": {"range": [-1.0, 1.0], "oracle_tolerance": 0.0, "floor_margin": 1.0},
        "resources": {"cpu": 1.0, "memory_mb": 512, "disk_mb": 256, "episode_timeout_s": 120},
        "network": {"mode": "public"},
        "capabilities": {
            "verifier": {"kind": "reward_channel"},
            "oracle": {"form": "script", "location": "validation/oracle.sh"},
            "declared_task_count": {"train": 1000, "test": 200},
        },
        "types": {"tags": ["game"]},
        **changed,
    }


def package(folder: Path, validation: Any = None, **keys: Any) -> Path:
    """Write a package that has nothing but ``openenv.yaml``."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"name": "catch", "version": "0.3.0", **keys}
    if validation is not None:
        content["validation"] = validation
    (folder / "openenv.yaml").write_text(yaml.safe_dump(content))
    return folder
