"""Layout of a Space: an environment's folder as it is published."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from openenv.core.documents import read_text
from openenv.core.exceptions import ConfigurationError
from openenv.hub.dockerfile import with_base_image, with_web_page
from openenv.hub.front_matter import with_front_matter
from openenv.hub.ignoring import kept_files

ROOT_DOCKERFILE = "Dockerfile"
SERVER_DOCKERFILE = "server/Dockerfile"
NEEDED = ("openenv.yaml", "__init__.py", "README.md", "pyproject.toml")
NEEDED_OF_SERVER = ("server/__init__.py", "server/app.py")


@dataclass(frozen=True)
class Look:
    """Appearance of a published environment.

    Attributes:
        title: Its title, where the README has none.
        port: The server's port, where the README names none.
        web_page: Whether the server shows browsers a start page.
        base_image: Base image; that of the Dockerfile if ``None``.
    """

    title: str
    port: int = 8000
    web_page: bool = True
    base_image: str | None = None


def missing_files(folder: Path, *, with_client: bool = True) -> list[str]:
    """Return the files that a folder lacks and that every published environment has; one for tools needs no client."""
    needed = [*NEEDED, *(["client.py"] if with_client else [])]
    if not (folder / ROOT_DOCKERFILE).is_file():
        needed.extend(NEEDED_OF_SERVER)
    missing = [path for path in needed if not (folder / path).is_file()]
    if not any((folder / path).is_file() for path in (ROOT_DOCKERFILE, SERVER_DOCKERFILE)):
        missing.append(SERVER_DOCKERFILE)
    return missing


def stage(folder: Path, staged: Path, look: Look, exclude: Iterable[str] = ()) -> None:
    """Write an environment's folder as it is published: the Dockerfile on top, the README with its front matter.

    Args:
        folder: The environment's folder; nothing in it is changed.
        staged: The folder to write; it must not exist.
        look: Appearance of the environment.
        exclude: Globs of files to leave out; see ``ignoring.is_ignored``.

    Raises:
        ConfigurationError: Something in the folder can't be published.
    """
    for path in kept_files(folder, exclude):
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, staged / path)
    _check_still_there(staged)
    if not (staged / ROOT_DOCKERFILE).exists():
        (staged / SERVER_DOCKERFILE).rename(staged / ROOT_DOCKERFILE)
    _rewrite_dockerfile(staged / ROOT_DOCKERFILE, look)
    _rewrite_readme(staged / "README.md", look)


def sizes_of(staged: Path) -> dict[PurePosixPath, int]:
    """Return the size of each file in bytes, by its path as seen from the folder."""
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    return {PurePosixPath(path.relative_to(staged).as_posix()): path.stat().st_size for path in files}


def _check_still_there(staged: Path) -> None:
    """Refuse an exclusion of a file that every Space has."""
    missing = missing_files(staged, with_client=False)
    if missing:
        raise ConfigurationError(f"{', '.join(missing)}: a Space needs it, but it is left out; see --exclude.")


def _rewrite_dockerfile(file: Path, look: Look) -> None:
    text = read_text(file)
    if look.base_image is not None:
        text = with_base_image(text, look.base_image)
    file.write_text(with_web_page(text, shown=look.web_page), encoding="utf-8")


def _rewrite_readme(file: Path, look: Look) -> None:
    text = read_text(file)
    changed = with_front_matter(text, title=look.title, port=look.port, web_page=look.web_page)
    file.write_text(changed, encoding="utf-8")
