"""What to say where Docker can't be used."""

import shutil
import subprocess

_COMMAND_TIMEOUT_S = 20.0
_INSTALL = "sudo apt-get install docker.io"
_START = "sudo systemctl start docker"
_JOIN = "sudo usermod -aG docker $USER"
_MORE = {
    _INSTALL: f"Install it: {_INSTALL}, or see https://docs.docker.com/engine/install.",
    _START: f"Start it: {_START}, or `sudo dockerd` where there is no systemd.",
    _JOIN: f"Let yourself in: {_JOIN}, then log in again.",
}


def why_unavailable(error: Exception | None = None) -> str:
    """Say why Docker can't be used, as ``docker version`` puts it, and what brings it.

    Args:
        error: What was raised when it was tried.
    """
    command = shutil.which("docker")
    if command is None:
        cause = f" ({error})" if error else ""
        return f"Docker can't be used: there is no `docker` command here{cause}. {_MORE[_INSTALL]}"
    said = _failure_of_docker_version(command)
    if said is None:
        return f"Docker can't be used, though `docker version` works: {error or 'it may have just been started'}."
    return f"Docker can't be used; `docker version` says: {said} {_MORE[advice(said)]}"


def advice(said: str | None) -> str:
    """Return the command that brings Docker.

    Args:
        said: What ``docker version`` says; ``None`` where there is no such command.
    """
    if said is None:
        return _INSTALL
    return _JOIN if "permission denied" in said.lower() else _START


def _failure_of_docker_version(command: str) -> str | None:
    """Return what the command says that people try first; ``None`` if it succeeds."""
    try:
        finished = subprocess.run(  # noqa: S603  # Docker's own command, found on PATH
            [command, "version"],
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_COMMAND_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if finished.returncode == 0 else finished.stderr.strip()
