"""Forms of an environment's name."""


def environment_key(name: str) -> str:
    """Return the key of a name, which all its forms have.

    Example:
        >>> {environment_key(name) for name in ("wordle", "wordle-env", "wordle_env", "Wordle")}
        {'wordle'}
    """
    return name.lower().replace("-", "_").removesuffix("_env")


def class_prefix(name: str) -> str:
    """Return the beginning of the names of an environment's classes.

    Example:
        >>> class_prefix("my_cool_game"), class_prefix("my_env")
        ('MyCoolGame', 'My')
    """
    words = (name.removesuffix("_env") or name).split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)
