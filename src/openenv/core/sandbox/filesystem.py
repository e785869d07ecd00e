"""What there is to see in a sandbox: the machine's programs, an interpreter, allowed packages, and a disk of its own.

Nothing else of the machine is mounted, and nothing of it can be written.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.packages import interpreter, package_files, standard_library

WORK = "/work"
"""The folder where code runs and keeps its files."""

PACKAGES = "/packages"
"""Where allowed packages are imported from."""

INIT = "/init"
"""The folder with the package that the first process runs."""

_GUEST = Path(__file__).parent / "guest"
_DEVICES = ("null", "zero", "full", "random", "urandom")
# Of /usr, what is no part of the distribution, and may have any origin.
_NOT_OF_THE_SYSTEM = ("/usr/local", "/usr/src", "/usr/games")
# The dynamic linker's list, and the links that choose among programs, such as /usr/bin/awk.
_OF_ETC = ("/etc/ld.so.cache", "/etc/alternatives")


def mounts(limits: SandboxLimits, packages: Sequence[str]) -> list[str]:
    """List bubblewrap's arguments for all that is mounted.

    Args:
        limits: How large the disks are.
        packages: Names of the allowed packages.

    Raises:
        ConfigurationError: A package is not installed.
    """
    return [
        *_system(),
        *_interpreter(),
        *_packages(packages),
        *("--ro-bind", str(_GUEST), f"{INIT}/guest"),
        *_devices(),
        *_disk(WORK, limits),
        *_disk("/tmp", limits),  # noqa: S108  # the sandbox's own
        *_disk("/dev/shm", limits),  # noqa: S108
        *("--proc", "/proc"),
        *("--remount-ro", "/"),
    ]


def python_program() -> str:
    """Return the interpreter's path in the sandbox: the one outside, next to which it looks for its libraries."""
    return str(interpreter())


def search_path() -> str:
    """Return the ``PATH`` in the sandbox."""
    return ":".join(dict.fromkeys([str(interpreter().parent), "/usr/bin", "/bin"]))


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for path in _OF_ETC:
        yield from ("--ro-bind-try", path, path)
    for path in (*_NOT_OF_THE_SYSTEM, "/usr/lib/python3/dist-packages"):
        yield from _emptied(Path(path))


def _interpreter() -> Iterator[str]:
    program, library = interpreter(), standard_library()
    prefix = Path(sys.base_prefix)
    if prefix != Path("/usr"):
        for folder in (*reversed(prefix.parents[:-1]), prefix, prefix / "bin"):
            if not folder.is_relative_to("/usr"):
                yield from ("--perms", "0755", "--dir", str(folder))
        yield from ("--ro-bind", str(program), str(program), "--ro-bind", str(library.parent), str(library.parent))
        for name in ("python3", "python"):
            yield from ("--symlink", program.name, str(program.with_name(name)))
    for name in ("site-packages", "dist-packages"):
        yield from _emptied(library / name)
    if Path("/usr/local").is_dir():
        yield from ("--remount-ro", "/usr/local")


def _packages(names: Sequence[str]) -> Iterator[str]:
    yield from ("--perms", "0755", "--dir", PACKAGES)
    for name, path in package_files(names).items():
        yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")


def _devices() -> Iterator[str]:
    yield from ("--perms", "0755", "--size", "65536", "--tmpfs", "/dev")
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        yield from ("--symlink", f"/proc/self/{target}", f"/dev/{name}")
    yield from ("--perms", "0755", "--dir", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108


def _disk(path: str, limits: SandboxLimits) -> Iterator[str]:
    yield from ("--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", path)


def _emptied(path: Path) -> Iterator[str]:
    """Cover a folder, if there is one, with an empty one."""
    if path.is_dir():
        yield from ("--perms", "0755", "--size", "4096", "--tmpfs", str(path))
        if path != Path("/usr/local"):  # where the interpreter may be, before that is closed too
            yield from ("--remount-ro", str(path))
