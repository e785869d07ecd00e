"""Selection of a journal's store."""

from pathlib import Path

from openenv._extras import install_command
from openenv.core.env_server.history.store import Store
from openenv.core.env_server.history.stores.sqlite import SqliteStore
from openenv.core.exceptions import ConfigurationError

_POSTGRES = ("postgresql://", "postgres://")


def is_address(location: str) -> bool:
    """Return whether a journal's setting is a database's address, not a file's path."""
    return "://" in location


def store_at(location: str) -> Store:
    """Return the store for a path or address, without opening it.

    Args:
        location: Path of a file, or address of a PostgreSQL database.

    Raises:
        ConfigurationError: ``location`` is neither, or it needs a package that is not installed.
    """
    if not is_address(location):
        return SqliteStore(Path(location))
    if not location.startswith(_POSTGRES):
        scheme = location.partition("://")[0]
        raise ConfigurationError(
            f"Expected the journal to be the path of a file or postgresql://USER@HOST/DATABASE, got {scheme}://..."
        )
    try:
        from openenv.core.env_server.history.stores.postgres import PostgresStore  # an extra brings psycopg
    except ImportError as error:
        raise ConfigurationError(
            f"A journal in PostgreSQL needs psycopg ({error}): {install_command('postgres')}"
        ) from error
    return PostgresStore(location)
