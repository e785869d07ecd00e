"""``make test-bare``: what README promises for a machine that has Python and ``make`` only, tried on such a machine.

A Debian with nothing but these two is made in a folder, this repository is cloned into it, and ``make`` runs there, as
root there. It takes most of an hour and 6 GiB, needs root, ``mmdebstrap`` and git here, and is no part of the
tests. What pip is set to here (``pip config list``) holds there, too: files that its settings name are seen at the same
place. Mounts end with the command; the folder stays, and ``--again`` goes on with it, for this commit.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.install import pip_settings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "bare"
CLONE = "root/openenv"
_PACKAGES = "python3,python3-venv,make"
_FOUND_MISSING = ("bwrap", "git", "ip", "ps", "chromium", "docker", "pg_ctl", "node", "uv", "cc")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# Mounts of a namespace of its own, which the kernel takes away when its last process has ended. The folder becomes the
# root itself: in a mere chroot the kernel allows no namespaces to those inside.
_ENTER = """
set -eu
folder=$1; command=$2; shift 2
mount --bind "$folder" "$folder"
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
mount --rbind --make-rslave /sys "$folder/sys"
for path; do
    if test -d "$path"; then mkdir -p "$folder$path"; else mkdir -p "$folder${path%/*}"; : >>"$folder$path"; fi
    mount --bind -o ro "$path" "$folder$path"
done
cd "$folder"
pivot_root . mnt
exec chroot . /bin/sh -c "umount -l /mnt && $command"
"""


def main() -> int:
    """Make the machine, and run ``make`` in it; return how that ended."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.bare_machine", description="Run make on a bare machine."
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the machine is kept; default: %(default)s")
    parser.add_argument("--again", action="store_true", help="use the machine and the .venv of last time")
    parser.add_argument("arguments", nargs="*", default=["test"], help="what make is given; default: test")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not options.again or not (folder / CLONE).exists():
        _make_machine(folder)
    _clone(folder / CLONE)
    return _enter(folder, f"cd /{CLONE} && exec make {shlex.join(options.arguments)}")


def _make_machine(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sys.stdout.write(f"Making a Debian with {_PACKAGES} and nothing else in {folder} ...\n")
    sys.stdout.flush()
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", _codename(), str(folder)]
    subprocess.run(command, check=True)
    shutil.copy("/etc/resolv.conf", folder / "etc" / "resolv.conf")
    shutil.copy("/etc/hosts", folder / "etc" / "hosts")
    there = [name for name in _FOUND_MISSING if shutil.which(name, path=f"{folder}/usr/bin:{folder}/usr/sbin")]
    assert not there, f"this machine is not bare: it has {', '.join(there)}"


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)["VERSION_CODENAME"]


def _clone(clone: Path) -> None:
    """Have a clone of this repository's commit; what is not committed is not tried."""
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    subprocess.run(["git", "-C", str(clone), "fetch", "--quiet", str(ROOT), commit.stdout.strip()], check=True)
    subprocess.run(["git", "-C", str(clone), "reset", "--quiet", "--hard", "FETCH_HEAD"], check=True)


def _enter(folder: Path, command: str) -> int:
    settings = _pip_variables()
    certificates = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ}
    proxies = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    usual = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    environment = {**usual, **proxies, **certificates, **settings}
    paths = _outermost({path for value in [*settings.values(), *certificates.values()] for path in _files(value)})
    inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh", str(folder), command]
    return subprocess.run([*inside, *map(str, paths)], env=environment).returncode


def _pip_variables() -> dict[str, str]:
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pip_settings().items()}


def _files(value: str) -> Iterator[Path]:
    """Find the files and folders of this machine that a setting names."""
    for word in value.split():
        path = Path(urlsplit(word).path if word.startswith("file://") else word)
        # A folder of an index leads to the files beside it.
        path = path.parent if word.startswith("file://") else path
        if path.is_absolute() and path.exists():
            yield path


def _outermost(paths: set[Path]) -> list[Path]:
    return sorted(path for path in paths if not paths.intersection(path.parents))


if __name__ == "__main__":
    sys.exit(main())
