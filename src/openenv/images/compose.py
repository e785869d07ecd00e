"""A Compose file that starts an environment's image as ``LocalDockerProvider`` would, as far as Compose goes."""

from pathlib import Path
from typing import Any

import yaml

from openenv.auto.manifest import load_manifest
from openenv.auto.names import environment_key
from openenv.core.providers.docker.confinement import MOST_PROCESSES, WRITABLE_FOLDER
from openenv.core.providers.docker.labels import ImageLabels
from openenv.core.wire.names import TOKEN_VARIABLE
from openenv.images.builder import BuiltImage

COMPOSE_FILE = "compose.yaml"
_HEAD = """\
# Written by `openenv build --compose`, and yours from here on. The server requires OPENENV_TOKEN of its clients.
# Compose can't publish the port of a container without a network; LocalDockerProvider reaches those too.
"""


def write_compose_file(folder: Path, image: BuiltImage) -> Path | None:
    """Write an environment's Compose file, unless there is one; return the written file."""
    path = folder / COMPOSE_FILE
    if path.exists():
        return None
    manifest = load_manifest(folder)
    service = {
        "image": image.tag,
        "environment": {
            TOKEN_VARIABLE: f"${{{TOKEN_VARIABLE}:?a token, which clients must send}}",
            "PORT": str(manifest.port),
        },
        "ports": [f"127.0.0.1:{manifest.port}:{manifest.port}"],
        "restart": "unless-stopped",
        **_confinement(image.labels),
    }
    content = {"services": {environment_key(manifest.name): service}}
    path.write_text(_HEAD + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def _confinement(labels: ImageLabels) -> dict[str, Any]:
    confined: dict[str, Any] = {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": MOST_PROCESSES,
    }
    if labels.writable is not None:
        confined |= {"read_only": True, "tmpfs": [f"{folder}:{WRITABLE_FOLDER}" for folder in labels.writable]}
    if labels.nested_sandbox:  # the provider's list of refused calls would have to be a file of its own here
        confined["security_opt"] += [f"{kind}:unconfined" for kind in ("seccomp", "apparmor", "systempaths")]
    return confined
