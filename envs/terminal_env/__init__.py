"""Jobs for a shell in a sandbox, with checks."""

from .client import TerminalEnv
from .models import (
    ReadFileAction,
    RunAction,
    SubmitAction,
    TerminalAction,
    TerminalObservation,
    TerminalState,
    WriteFileAction,
)

__all__ = [
    "ReadFileAction",
    "RunAction",
    "SubmitAction",
    "TerminalAction",
    "TerminalEnv",
    "TerminalObservation",
    "TerminalState",
    "WriteFileAction",
]
