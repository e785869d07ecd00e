"""The forms of an environment's name."""

import re
from pathlib import Path

from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.core.providers.spaces import SPACE_ID

_SPACE = re.compile(rf"(https?://(www\.)?huggingface\.co/(spaces/)?)?(?P<id>{SPACE_ID})/?", re.ASCII)
_URL = re.compile(r"(https?|wss?)://.+|[\w.-]+:\d+(/.*)?")
IMAGE_PREFIX = "docker:"
_ADAPTED = re.compile(r"[a-z][a-z0-9_]*:[^/].*")


def environment_key(name: str) -> str:
    """Bring the forms of a name to one.

    Example:
        >>> {environment_key(name) for name in ("wordle", "wordle-env", "wordle_env", "Wordle")}
        {'wordle'}
    """
    return name.lower().replace("-", "_").removesuffix("_env")


def check_no_image(target: str | Path) -> None:
    """Refuse ``docker:IMAGE``, which ``EnvSpec`` alone starts.

    Raises:
        EnvironmentNotFoundError: The target is an image.
    """
    if isinstance(target, str) and target.startswith(IMAGE_PREFIX):
        image = target.removeprefix(IMAGE_PREFIX)
        raise EnvironmentNotFoundError(
            f"{target} is an image, which EnvSpec and from_docker_image() start. Elsewhere start it yourself, as with "
            f"`docker run -p 127.0.0.1:8000:8000 {image}`, and give the address, http://localhost:8000."
        )


def class_prefix(name: str) -> str:
    """Turn an environment's name into what its classes' names begin with.

    Example:
        >>> class_prefix("my_cool_game"), class_prefix("my_env")
        ('MyCoolGame', 'My')
    """
    words = (name.removesuffix("_env") or name).split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)


def space_id(name: str) -> str | None:
    """Return the id of the Space that a name or an address names; ``None`` where it names none.

    Example:
        >>> space_id("openenv/echo-env"), space_id("https://huggingface.co/spaces/openenv/echo-env"), space_id("echo")
        ('openenv/echo-env', 'openenv/echo-env', None)
    """
    found = _SPACE.fullmatch(name)
    return None if found is None or Path(name).exists() else found["id"]


def is_url(target: str | Path) -> bool:
    """Say whether a target is a server's address rather than an environment's name or folder.

    Example:
        >>> [is_url(target) for target in ("http://host:8000", "localhost:8000", "wordle", "./my_env")]
        [True, True, False, False]
    """
    return isinstance(target, str) and _URL.fullmatch(target) is not None


def is_adapted(target: str | Path) -> bool:
    """Say whether a target names an environment of another world, as ``PREFIX:ID``, which ``openenv serve`` finds.

    Example:
        >>> [is_adapted(target) for target in ("gymnasium:CartPole-v1", "localhost:8000", "wordle", "./a:b")]
        [True, False, False, False]
    """
    return isinstance(target, str) and _ADAPTED.fullmatch(target) is not None and not is_url(target)
