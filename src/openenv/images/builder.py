"""Builds of an image with the ``docker`` command, which knows BuildKit where Docker's SDK does not."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openenv.auto.manifest import Manifest, load_manifest
from openenv.auto.names import environment_key
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.docker.diagnosis import why_unavailable
from openenv.core.providers.docker.labels import NETWORK, ImageLabels
from openenv.images.context import LOCK_FILE, build_context
from openenv.images.dockerfile import Dockerfile

BASE_IMAGE = "BASE_IMAGE"
_NO_INDEX = "PIP_NO_INDEX"
_LIST_INSTALLED = (
    "from importlib.metadata import distributions\n"
    "for d in sorted(distributions(), key=lambda d: d.name.lower()): print(f'{d.name}=={d.version}')"
)


@dataclass(frozen=True, kw_only=True)
class Build:
    """Settings of a build.

    Attributes:
        folder: The environment's folder, with its ``openenv.yaml``.
        tag: Name of the image; ``openenv-NAME`` if ``None``.
        context: The folder whose files the Dockerfile copies; that of the environment if ``None``.
        dockerfile: The Dockerfile; that of the environment if ``None``.
        base_image: Base image, for a Dockerfile with ``ARG BASE_IMAGE``.
        wheels: A folder of wheels to install from; no index is used then.
        lock: Whether to choose versions again, and write them to the folder's lock.
        no_cache: Whether to make every layer again.
        arguments: Further arguments of the Dockerfile.
        timeout_s: Seconds that the build may take; ``None`` for no limit.
    """

    folder: Path
    tag: str | None = None
    context: Path | None = None
    dockerfile: Path | None = None
    base_image: str | None = None
    wheels: Path | None = None
    lock: bool = False
    no_cache: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True)
class BuiltImage:
    """Built image.

    Attributes:
        tag: Its name.
        id: Its digest, ``sha256:...``.
        size: Bytes on disk.
        base_size: Those of them that are its base image's; ``None`` where none was named.
        labels: Its labels about the container that it needs.
    """

    tag: str
    id: str
    size: int
    base_size: int | None
    labels: ImageLabels


def build_image(build: Build) -> BuiltImage:
    """Build an image; Docker's output goes to standard error as it comes.

    Raises:
        ConfigurationError: The folder has no manifest or no Dockerfile, or the Dockerfile lacks a requested argument.
        ProviderError: Docker is not there, or could not build it.
    """
    manifest = load_manifest(build.folder)
    dockerfile = Dockerfile.of_folder(build.folder) if build.dockerfile is None else Dockerfile(build.dockerfile)
    options = _options(build, manifest, dockerfile)
    tag = build.tag or default_tag(manifest)
    folder = build.context or build.folder
    command = _docker()
    with build_context(folder, dockerfile, wheels=build.wheels, without_lock=build.lock) as context:
        options += ["--tag", tag, "--file", str(_in_context(dockerfile.path, folder, context))]
        failure = f"{tag} could not be built; Docker's message is above."
        _run([command, "build", *options, str(context)], failure, timeout_s=build.timeout_s)
    if build.lock:
        (build.folder / LOCK_FILE).write_text(_installed(command, tag, manifest), encoding="utf-8")
    return _built(command, tag, build.base_image)


def default_tag(manifest: Manifest) -> str:
    """Return the default name of an environment's image."""
    return f"openenv-{environment_key(manifest.name).replace('_', '-')}"


def _options(build: Build, manifest: Manifest, dockerfile: Dockerfile) -> list[str]:
    if build.lock and not dockerfile.mentions(LOCK_FILE):
        raise ConfigurationError(
            f"{dockerfile.path} does not look for {LOCK_FILE}. Have its pip install take it as --constraint; "
            "`openenv init` shows how."
        )
    # A build that fails leaves no container behind.
    options = ["--force-rm", *_labels(manifest)]
    for name, value in _arguments(build, manifest, dockerfile).items():
        options += ["--build-arg", f"{name}={value}"]
    return [*options, "--no-cache"] if build.no_cache else options


def _arguments(build: Build, manifest: Manifest, dockerfile: Dockerfile) -> dict[str, str]:
    arguments: dict[str, str] = {}
    # Dockerfiles of the public OpenEnv may have these two as arguments.
    offered = {"BUILD_MODE": _build_mode(build.folder), "ENV_NAME": manifest.name}
    arguments |= {name: value for name, value in offered.items() if name in dockerfile.arguments}
    if build.base_image is not None:
        dockerfile.check_takes(BASE_IMAGE)
        arguments[BASE_IMAGE] = build.base_image
    if build.wheels is not None:
        dockerfile.check_takes(_NO_INDEX)
        arguments[_NO_INDEX] = "1"
    return arguments | dict(build.arguments)


def _build_mode(folder: Path) -> str:
    """Return whether the folder is one of a repository's ``envs/``."""
    parent = folder.resolve().parent
    return "in-repo" if parent.name == "envs" and (parent.parent / ".git").exists() else "standalone"


def _labels(manifest: Manifest) -> list[str]:
    labels = {
        "org.opencontainers.image.title": manifest.name,
        "org.opencontainers.image.version": manifest.version,
        "org.opencontainers.image.description": manifest.description,
    }
    if _network_mode(manifest) == "no-network":
        labels[NETWORK] = "none"
    return [option for name, value in labels.items() if value for option in ("--label", f"{name}={value}")]


def _network_mode(manifest: Manifest) -> Any:
    """Return ``validation.network.mode`` of the manifest, if it has it."""
    value: Any = (manifest.model_extra or {}).get("validation")
    for key in ("network", "mode"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _in_context(dockerfile: Path, folder: Path, context: Path) -> Path:
    """Return a Dockerfile's path in the copy of the folder; its path where it is elsewhere."""
    path, root = dockerfile.resolve(), folder.resolve()
    return context / path.relative_to(root) if path.is_relative_to(root) else path


def _installed(command: str, tag: str, manifest: Manifest) -> str:
    """Return the lock: the packages of an image, but for the environment itself."""
    run = [command, "run", "--rm", "--network", "none", "--entrypoint", "python", tag, "-c", _LIST_INSTALLED]
    lines = _run(run, f"What is installed in {tag} can't be listed.", output=True).splitlines()
    key = environment_key(manifest.name)
    kept = [line for line in lines if environment_key(line.partition("==")[0].removeprefix("openenv-")) != key]
    return "".join(
        f"{line}\n" for line in ["# Written by `openenv build --lock`; run it again for newer versions.", *kept]
    )


def _built(command: str, tag: str, base_image: str | None) -> BuiltImage:
    details = _inspect(command, tag)
    if details is None:
        raise ProviderError(f"Docker has built {tag}, but does not have it now; was it removed meanwhile?")
    base = None if base_image is None else _inspect(command, base_image)
    base_size = None if base is None else int(base["Size"])  # BuildKit may keep it where images are not listed
    labels = ImageLabels.of(details["Config"].get("Labels") or {})
    return BuiltImage(tag, str(details["Id"]), int(details["Size"]), base_size, labels)


def _inspect(command: str, tag: str) -> dict[str, Any] | None:
    completed = subprocess.run(  # noqa: S603  # Docker's command, found on PATH
        [command, "image", "inspect", tag], check=False, capture_output=True, encoding="utf-8", errors="replace"
    )
    if completed.returncode != 0:
        return None
    found: list[dict[str, Any]] = json.loads(completed.stdout)
    return found[0]


def _docker() -> str:
    command = shutil.which("docker")
    if command is None or subprocess.run([command, "version"], check=False, capture_output=True).returncode != 0:  # noqa: S603
        raise ProviderError(why_unavailable())
    return command


def _run(command: Sequence[str], failure: str, *, output: bool = False, timeout_s: float | None = None) -> str:
    """Run Docker's command; its output is returned or, as it comes, passed on to standard error."""
    try:
        finished = subprocess.run(  # noqa: S603  # Docker's command, found on PATH
            command,
            check=False,
            stdout=subprocess.PIPE if output else sys.stderr,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise ProviderError(f"{failure} It did not end within {timeout_s:g} s.") from error
    if finished.returncode != 0:
        raise ProviderError(failure)
    return finished.stdout or ""
