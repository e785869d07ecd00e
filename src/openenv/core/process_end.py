"""How a process ended, in words."""

import signal


def how_ended(status: int | None) -> str:
    """Say how a process ended, as the end of a sentence.

    Args:
        status: Its return code as ``subprocess`` has it, the negative number of a signal; ``None`` where that is not
            known.

    Example:
        >>> how_ended(3), how_ended(-11)
        ('exited with status 3', 'was ended by signal 11 (SIGSEGV)')
    """
    if status is None:
        return "has ended"
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else "unknown"
    hint = "; it may have run out of memory" if name == "SIGKILL" else ""
    return f"was ended by signal {-status} ({name}{hint})"
