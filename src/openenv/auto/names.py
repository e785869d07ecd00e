"""Forms of an environment's name."""

import re

_SEPARATORS = re.compile(r"[-_.]+")


def environment_key(name: str) -> str:
    """Return the key of a name, which all its forms have; separators are alike, as in the names of distributions.

    Example:
        >>> {environment_key(name) for name in ("wordle", "wordle-env", "wordle_env", "Wordle", "Wordle.Env")}
        {'wordle'}
    """
    return _SEPARATORS.sub("_", name.lower()).removesuffix("_env")


def class_prefix(name: str) -> str:
    """Return the beginning of the names of an environment's classes.

    Example:
        >>> class_prefix("my_cool_game"), class_prefix("my_env")
        ('MyCoolGame', 'My')
    """
    words = (name.removesuffix("_env") or name).split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)
