"""What ``breakpoint()`` does in a server that another program has started: no person could type into its debugger."""

from typing import NoReturn


def refuse(*_args: object, **_kwargs: object) -> NoReturn:
    """Say where a breakpoint works, instead of waiting for ever; to be named in ``PYTHONBREAKPOINT``.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        "breakpoint() needs the environment in the process that has the terminal: openenv.make(..., in_process=True), "
        "or openenv play --in-process."
    )
