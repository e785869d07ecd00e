"""The tasks of MiniWoB++: one page each, which the package ``miniwob`` brings."""

import difflib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from openenv.core.exceptions import ConfigurationError, InvalidRequestError

BENCHMARK = "miniwob"

# Where the pages say they are, instead of telling everybody how the server's folders are named.
SHOWN_ROOT = "file:///miniwob"


@cache
def pages_folder() -> Path:
    """Find the folder with the pages of the tasks and what these load.

    Raises:
        ConfigurationError: The package is not installed.
    """
    # Not imported: that would load Gymnasium and Selenium, which the pages need not.
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise ConfigurationError("The package miniwob, which brings the tasks, is missing: pip install miniwob")
    return Path(spec.origin).parent.resolve() / "html"


@cache
def task_names() -> tuple[str, ...]:
    """List the tasks, in alphabetical order."""
    return tuple(sorted(path.stem for path in (pages_folder() / "miniwob").glob("*.html")))


def task_named(name: object) -> str:
    """Find a task by its name.

    Args:
        name: Such as ``click-test``; BrowserGym's ``miniwob.click-test`` names the same.

    Raises:
        InvalidRequestError: There is no such task.
    """
    asked = str(name).removeprefix("browsergym/").removeprefix(f"{BENCHMARK}.")
    if isinstance(name, str) and asked in task_names():
        return asked
    close = difflib.get_close_matches(asked[:100], task_names(), n=3) or ["click-test", "click-button", "enter-text"]
    raise InvalidRequestError(
        f"MiniWoB has no task {str(name)[:100]!r}. Expected one of {len(task_names())}, such as {', '.join(close)}."
    )


def task_url(name: str) -> str:
    """Return the address of a task's page."""
    return (pages_folder() / "miniwob" / f"{name}.html").as_uri()


def shown(text: str) -> str:
    """Replace the folder of the pages in a text by a folder that reveals nothing about the server."""
    return text.replace(pages_folder().as_uri(), SHOWN_ROOT)


def page_seed(seed: int) -> int:
    """Return what a page's chance is seeded with: what BrowserGym draws from the same seed.

    Args:
        seed: Of the episode, 0 or more; those that NumPy does not take (2**32 and above) count from 0 again.
    """
    return int(np.random.RandomState(seed % 2**32).randint(0, 1_000_000))
