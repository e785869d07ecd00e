"""Questions about SQLite databases, to be answered with queries."""

from .client import SqlEnv
from .models import (
    QueryAction,
    SchemaAction,
    SqlAction,
    SqlObservation,
    SqlState,
    SubmitAction,
    SubmitQueryAction,
)

__all__ = [
    "QueryAction",
    "SchemaAction",
    "SqlAction",
    "SqlEnv",
    "SqlObservation",
    "SqlState",
    "SubmitAction",
    "SubmitQueryAction",
]
