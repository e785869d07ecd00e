"""Pack the OpenEnv that runs here as a wheel, so that images and other environments get the very same one.

Whether it was installed from an index or from a checkout, nothing has to be downloaded or built for it.
"""

import base64
import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from openenv._extras import DISTRIBUTION
from openenv._version import PACKAGE_FOLDER
from openenv.core.exceptions import ProviderError

_HOME = PACKAGE_FOLDER.parent
_PACKAGES = ("openenv", "openenv_core")
_BESIDE = ("_openenv_mixture.py", "openenv_mixture.pth")
_PATH_FILE = "_openenv_core.pth"
_METADATA = ("METADATA", "entry_points.txt")
_WHEEL = "Wheel-Version: 1.0\nGenerator: openenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_MOMENT = (1980, 1, 1, 0, 0, 0)  # of every file, so that the same content is the same wheel


def pack_openenv(folder: Path) -> Path:
    """Write the wheel.

    Args:
        folder: Where to; made if it is not there.

    Returns:
        The wheel, named as its version wants it.

    Raises:
        ProviderError: OpenEnv runs from a folder that was not installed.
    """
    return _pack(folder, ((path, file.read_bytes()) for path, file in _files()))


def pack_for_venv(folder: Path) -> Path:
    """Write a wheel for an environment on this machine.

    Of an editable install it names the folder of the code, as that install does, so that an edit needs no other wheel.

    Args:
        folder: Where to; made if it is not there.

    Returns:
        The wheel.

    Raises:
        ProviderError: OpenEnv runs from a folder that was not installed.
    """
    return _pack(folder, [(_PATH_FILE, f"{_HOME}\n".encode())]) if is_editable() else pack_openenv(folder)


def is_editable() -> bool:
    """Say whether OpenEnv was installed as ``pip install --editable`` does it."""
    return bool(_origin().get("dir_info", {}).get("editable"))


def is_from_index() -> bool:
    """Say whether OpenEnv was installed from an index, where others find the same version, and not from its code."""
    return not _origin()


def _origin() -> dict[str, Any]:
    """Return where OpenEnv was installed from, as pip notes it for what is from no index."""
    origin: dict[str, Any] = json.loads(_installed().read_text("direct_url.json") or "{}")
    return origin


def _pack(folder: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    installed = _installed()
    name = f"{DISTRIBUTION.replace('-', '_')}-{installed.version}"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        record = "".join(_add(archive, path, content) for path, content in files)
        for part in _METADATA:
            record += _add(archive, f"{name}.dist-info/{part}", (installed.read_text(part) or "").encode())
        record += _add(archive, f"{name}.dist-info/WHEEL", _WHEEL.encode())
        record += f"{name}.dist-info/RECORD,,\n"
        archive.writestr(zipfile.ZipInfo(f"{name}.dist-info/RECORD", _MOMENT), record)
    return wheel


def fingerprint() -> str:
    """Return a hash of what the wheel for an environment on this machine would have in it.

    Raises:
        ProviderError: OpenEnv runs from a folder that was not installed.
    """
    digest = hashlib.sha256((_installed().read_text("METADATA") or "").encode())
    if is_editable():
        digest.update(f"{_HOME}\0".encode())
        return digest.hexdigest()
    for path, file in _files():
        digest.update(f"{path}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def provided_extras() -> frozenset[str]:
    """Return the extras that this OpenEnv has."""
    return frozenset(_installed().metadata.get_all("Provides-Extra") or ())


def _installed() -> Distribution:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError as error:
        raise ProviderError(
            "Images and other environments get the OpenEnv that runs here, but that was not installed; run "
            "pip install -e . in its folder."
        ) from error


def _files() -> Iterator[tuple[str, Path]]:
    """Give each file of the packages and beside them, in order, with its path in the wheel."""
    yield from ((name, _HOME / name) for name in _BESIDE)
    for package in _PACKAGES:
        for file in sorted((_HOME / package).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(_HOME).as_posix(), file


def _add(archive: zipfile.ZipFile, path: str, content: bytes) -> str:
    """Add a file; return its line of the record."""
    archive.writestr(zipfile.ZipInfo(path, _MOMENT), content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"
