"""A real Docker engine for the tests, and images for it that come from no registry.

The engine that runs is used. Where none does, root starts one, which ends when no process uses it any more. The images
are kept by the engine, so they are made once: Debian's Python from Debian's packages, and wheels from pip's settings.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path

from filelock import FileLock
from tests.support.needs import require, skip_without
from tests.support.servers import eventually

from openenv.core.providers.venv.wheel import pack_openenv
from openenv.images.builder import Build, build_image

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "docker"
_PATIENCE_S = 600.0
_ENGINE_START_S = 180.0
_PACKAGES = "bubblewrap,ca-certificates,libseccomp2,passwd,python3,python3-venv"
_SLIM = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "locale", "man")]
# Like python:3.11-slim: `python`, `python3` and `pip` are there, and root may install packages.
_PYTHON = """
FROM {rootfs}
RUN python3 -m venv /opt/python
ENV PATH=/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
# What pip is asked for is there already, and it fetches nothing.
_WITH_OPENENV = """
FROM {python}
COPY --from={environment} /app/venv/lib /opt/python/lib
COPY --from={environment} /app/venv/bin/uvicorn /opt/python/bin/
RUN mkdir /app && ln -s /opt/python /app/venv && printf '[global]\\nno-index = true\\n' > /etc/pip.conf
"""
# Ends the engine once it gets the lock, which it does when nobody shares it any more, however they ended.
_WATCHER = """
import fcntl, subprocess, sys
engine = subprocess.Popen(["dockerd"], stdout=sys.stderr)
with open(sys.argv[1]) as users:
    fcntl.flock(users, fcntl.LOCK_EX)
    engine.terminate()
    engine.wait()
"""


@functools.cache
def require_engine() -> None:
    """Have an engine; skip the test, saying what is missing, where there can be none."""
    require("docker", "mmdebstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "engine.lock"):
        _share_engine()
        if not _is_running():
            _start_engine()


@functools.cache
def python_image() -> str:
    """An image with Python, as ``python:3.11-slim`` is one."""
    require_engine()
    rootfs = f"openenv-tests-rootfs:{_key(_PACKAGES, *_SLIM)}"
    image = f"openenv-tests-python:{_key(rootfs, _PYTHON)}"
    with FileLock(CACHE / "images.lock"):
        if not has_image(rootfs):
            _make_rootfs(rootfs)
        if not has_image(image):
            _docker_build(image, _PYTHON.format(rootfs=rootfs))
    return image


@functools.cache
def wheels() -> Path:
    """A folder with the wheels of everything that OpenEnv depends on, for the Python of ``python_image``."""
    image = python_image()
    versions = _docker("run", "--rm", image, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    folder = CACHE / f"wheels-{versions}-{_key(*sorted(requires('openenv-core') or []))}"
    with FileLock(CACHE / "wheels.lock"):
        if not folder.exists():
            _download_wheels(folder.with_suffix(".part"), versions)
            folder.with_suffix(".part").rename(folder)
    return folder


@functools.cache
def image_of(environment: str) -> str:
    """The image of one of ``envs/``, built by ``openenv build``."""
    image = f"openenv-tests-{environment.replace('_', '-')}"
    folder = ROOT / "envs" / environment
    with FileLock(CACHE / f"{environment}.lock"):
        build_image(Build(folder=folder, tag=image, base_image=python_image(), wheels=wheels()))
    return image


def variant_of(image: str, name: str, dockerfile: str) -> str:
    """Build an image on another one, by the lines that follow its FROM."""
    tag = f"openenv-tests-{name}:{_key(dockerfile)}"
    with FileLock(CACHE / f"{name}.lock"):
        _docker_build(tag, f"FROM {image}\n{dockerfile}")
    return tag


@contextmanager
def python_slim() -> Iterator[None]:
    """Have an image called ``python:3.11-slim``, in which OpenEnv is installed if it is ours."""
    name = "python:3.11-slim"
    ours = not has_image(name)
    if ours:
        _docker_build(name, _WITH_OPENENV.format(python=python_image(), environment=image_of("echo_env")))
    try:
        yield
    finally:
        if ours:
            _docker("rmi", name)


def has_image(tag: str) -> bool:
    """Whether the engine has an image."""
    return subprocess.run(["docker", "image", "inspect", tag], capture_output=True).returncode == 0


def id_of(tag: str) -> str:
    """Return the digest of an image, ``sha256:...``."""
    return _docker("image", "inspect", "--format", "{{.Id}}", tag)


def containers(*options: str) -> list[str]:
    """Return the ids of the containers that there are, as ``docker ps`` lists them with further options."""
    return _docker("ps", "--all", "--quiet", "--no-trunc", *options).split()


def _docker(*arguments: str, stdin: str | None = None) -> str:
    finished = subprocess.run(["docker", *arguments], input=stdin, capture_output=True, text=True, timeout=_PATIENCE_S)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _is_running() -> bool:
    return subprocess.run(["docker", "version"], capture_output=True).returncode == 0


def _share_engine() -> None:
    """Hold, for as long as this process lives, what keeps an engine that tests started from being ended."""
    users = os.open(CACHE / "users", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(users, fcntl.LOCK_SH)


def _start_engine() -> None:
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        skip_without("docker", "no engine runs, and only root can start one", "sudo systemctl start docker")
    with (CACHE / "dockerd.log").open("w") as log:
        command = ["setsid", "--fork", sys.executable, "-c", _WATCHER, str(CACHE / "users")]
        subprocess.run(command, stderr=log, check=True)
    eventually(_is_running, f"the engine runs; see {CACHE / 'dockerd.log'}", _ENGINE_START_S)


def _make_rootfs(tag: str) -> None:
    archive = CACHE / "rootfs.tar"
    command = ["mmdebstrap", "--quiet", "--variant=apt", f"--include={_PACKAGES}", *_SLIM, _codename(), str(archive)]
    try:
        _run(command)
        _docker("import", str(archive), tag)
    finally:
        archive.unlink(missing_ok=True)


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)["VERSION_CODENAME"]


def _download_wheels(folder: Path, python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    core = pack_openenv(folder)
    options = [
        "--quiet",
        "--only-binary=:all:",
        "--python-version",
        python,
        "--constraint",
        str(ROOT / "constraints.txt"),
    ]
    _run([sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), str(core), "setuptools>=77"])
    core.unlink()


def _docker_build(tag: str, dockerfile: str) -> None:
    _docker("build", "--quiet", "--tag", tag, "-", stdin=dockerfile)


def _run(command: Sequence[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    assert finished.returncode == 0, finished.stderr
