"""The forms of an environment's name."""


def environment_key(name: str) -> str:
    """Bring the forms of a name to one.

    Example:
        >>> {environment_key(name) for name in ("wordle", "wordle-env", "wordle_env", "Wordle")}
        {'wordle'}
    """
    return name.lower().replace("-", "_").removesuffix("_env")


def class_prefix(name: str) -> str:
    """Turn an environment's name into what its classes' names begin with.

    Example:
        >>> class_prefix("my_cool_game"), class_prefix("my_env")
        ('MyCoolGame', 'My')
    """
    words = (name.removesuffix("_env") or name).split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)
