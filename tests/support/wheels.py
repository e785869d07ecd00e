"""Wheels for tests that install packages: small ones of their own, and those that run here, packed again.

So nothing has to be downloaded.
"""

import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    requires: Iterable[str] = (),
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Write the wheel of a package with some modules."""
    prefix = f"{name.replace('-', '_')}-{version}"
    info = f"{prefix}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    files = {
        **(modules or {f"{name.replace('-', '_')}.py": f"VERSION = {version!r}\n"}),
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{prefix}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))
    return wheel


def pack_what_is_needed(folder: Path, *needed: str) -> None:
    """Pack what some distributions depend on, and whatever that depends on, but not those themselves."""
    waiting = [Requirement(line) for line in needed]
    roots = {canonicalize_name(requirement.name) for requirement in waiting}
    seen = set[tuple[str, frozenset[str]]]()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # for another platform
            continue
        if name not in roots:
            pack(installed, folder)
        waiting += [one for line in installed.requires or () if _applies(one := Requirement(line), extras)]


def pack(installed: Distribution, folder: Path) -> None:
    """Pack an installed distribution as the wheel that it came from."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (installed.read_text("WHEEL") or "").splitlines()
    tags = [line.partition(": ")[2].split("-") for line in lines if line.startswith("Tag: ")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    name = f"{canonicalize_name(installed.name).replace('-', '_')}-{installed.version}"
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as archive:
        for path in installed.files or ():
            text = path.as_posix()
            if not text.startswith("..") and not text.endswith(".pyc"):
                archive.write(str(path.locate()), text)


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all that OpenEnv needs, and of what builds a package."""
    house = tmp_path_factory.mktemp("wheelhouse")
    pack_what_is_needed(house, "openenv-core[core,docker]")
    pack(distribution("setuptools"), house)
    return house


@pytest.fixture(scope="session")
def uv_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What uv has unpacked already."""
    return tmp_path_factory.mktemp("uv-cache")


@pytest.fixture
def offline(wheelhouse: Path, uv_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have uv and pip take packages from the wheels only, and environments be kept in a folder of the test's own."""
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    own = tmp_path / "own-wheels"
    own.mkdir()
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", f"{wheelhouse},{own}")
    monkeypatch.setenv("UV_CACHE_DIR", str(uv_cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{wheelhouse} {own}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return own
