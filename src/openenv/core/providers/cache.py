"""Where OpenEnv keeps what it has built or downloaded."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of what is kept: ``~/.cache/openenv/NAME``, or below ``XDG_CACHE_HOME``. It need not be there.

    Args:
        name: What is kept in it, as in ``venvs``.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".cache") / "openenv" / name


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder that is always whole: it gets its name when its content is complete.

    Args:
        folder: The folder. Where another process has made it meanwhile, that process's folder stays.

    Yields:
        An empty folder beside it, of the same name, for the content.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as aside:
        draft = Path(aside) / folder.name
        draft.mkdir()
        yield draft
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
