"""What a call in a sandbox gave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Execution:
    """What a call gave. All of it is the word of the code that ran; only ``stopped`` and what follows it is ours.

    Attributes:
        stdout: What was written there, up to the limit.
        stderr: The same.
        exit_code: As a shell has it: 0 for success, 124 for a timeout, 128 and the signal's number for what was killed.
        truncated: Whether an output was longer than its limit.
        stopped: A sentence that says why the code was ended, or the interpreter replaced; empty where neither happened.
        timed_out: Whether it had used up its time.
        interpreter_lost: Whether the next piece of Python finds a fresh interpreter, without the variables.
        files_lost: Whether the sandbox had to be replaced, and the files are gone too.
        duration_s: Seconds that it took.
    """

    stdout: str
    stderr: str
    exit_code: int
    truncated: bool = False
    stopped: str = ""
    timed_out: bool = False
    interpreter_lost: bool = False
    files_lost: bool = False
    duration_s: float = 0.0
