"""Probes of programs that are installed beside Python: Docker, uv, and a driver of a GPU."""

import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from openenv.core.providers.docker.diagnosis import advice
from openenv.core.providers.venv.installer import find_uv
from openenv.doctor.finding import Finding, Status

TIMEOUT_S = 1.6


def docker() -> Finding:
    """Request the version of Docker's engine, with the rights of this process."""
    used_for = "environments in containers, images"
    command = shutil.which("docker")
    if command is None:
        return Finding("docker", Status.MISSING, "there is no docker command", used_for, advice(None))
    try:
        completed = output_of(command, "version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired:
        return Finding("docker", Status.UNSURE, f"its engine did not answer within {TIMEOUT_S:g} s", used_for)
    if completed.returncode == 0:
        return Finding("docker", Status.READY, f"engine {completed.stdout.strip()}", used_for)
    lines = completed.stderr.strip().splitlines()
    return Finding("docker", Status.MISSING, lines[-1] if lines else "no answer", used_for, advice(completed.stderr))


def uv() -> Finding:
    """Look for uv."""
    used_for = "Python environments of folders (--venv), packages of Spaces"
    command = find_uv()
    if command is None:
        return Finding("uv", Status.MISSING, "not found", used_for, "pip install uv")
    try:
        completed = output_of(command, "--version")
    except subprocess.TimeoutExpired:
        return Finding("uv", Status.UNSURE, f"it did not answer within {TIMEOUT_S:g} s", used_for)
    return Finding("uv", Status.READY, completed.stdout.strip(), used_for)


def gpu() -> Finding:
    """Look for GPUs, and whether PyTorch was built for them."""
    used_for = "training models of more than a few million parameters"
    torch = _torch()
    command = shutil.which("nvidia-smi")
    if command is None:
        return Finding("gpu", Status.MISSING, f"no nvidia-smi, so no NVIDIA GPU; {torch}", used_for)
    try:
        completed = output_of(command, "--query-gpu=name,memory.total", "--format=csv,noheader")
    except subprocess.TimeoutExpired:
        return Finding("gpu", Status.UNSURE, f"nvidia-smi did not answer within {TIMEOUT_S:g} s; {torch}", used_for)
    if completed.returncode != 0:
        lines = (completed.stdout + completed.stderr).strip().splitlines()
        return Finding("gpu", Status.MISSING, f"{lines[0] if lines else 'nvidia-smi failed'}; {torch}", used_for)
    names = "; ".join(completed.stdout.strip().splitlines())
    if "for CPUs only" in torch:
        return Finding("gpu", Status.UNSURE, f"{names}; {torch}", used_for, "pip install --force-reinstall torch")
    return Finding("gpu", Status.READY, f"{names}; {torch}", used_for)


def output_of(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a program.

    Raises:
        subprocess.TimeoutExpired: It took too long, and was ended.
    """
    return subprocess.run(  # noqa: S603  # programs found on PATH
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIMEOUT_S,
    )


def _torch() -> str:
    """Return the version of PyTorch that is installed, without the seconds of its import."""
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return "PyTorch is not installed"
    return f"PyTorch {installed}{', for CPUs only' if installed.endswith('+cpu') else ''}"
