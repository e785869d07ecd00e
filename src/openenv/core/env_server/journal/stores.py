"""Which store a journal is kept in."""

from pathlib import Path

from openenv.core.env_server.journal.sqlite import SqliteStore
from openenv.core.env_server.journal.store import Store
from openenv.core.exceptions import ConfigurationError

_POSTGRES = ("postgresql://", "postgres://")


def is_address(place: str) -> bool:
    """Whether a place is the address of a database rather than the path of a file."""
    return "://" in place


def store_at(place: str) -> Store:
    """Open a store, or make it.

    Args:
        place: Path of a file, or the address of a database of PostgreSQL.

    Raises:
        ConfigurationError: It can't be opened, holds no journal, or one of another version; or it takes a package that
            is not installed.
    """
    if not is_address(place):
        return SqliteStore(Path(place))
    if not place.startswith(_POSTGRES):
        scheme = place.partition("://")[0]
        raise ConfigurationError(
            f"Expected the journal to be the path of a file or postgresql://USER@HOST/DATABASE, got {scheme}://..."
        )
    try:
        from openenv.core.env_server.journal.postgres import PostgresStore  # an extra brings psycopg
    except ImportError as error:
        raise ConfigurationError(
            f'A journal in PostgreSQL needs psycopg ({error}): pip install "openenv-core[postgres]"'
        ) from error
    return PostgresStore(place)
