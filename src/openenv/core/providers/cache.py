"""Where OpenEnv keeps what it has built or downloaded."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of what is kept: ``~/.cache/openenv/NAME``, or below ``XDG_CACHE_HOME``. It need not be there.

    Args:
        name: What is kept in it, as in ``venvs``.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".cache") / "openenv" / name
