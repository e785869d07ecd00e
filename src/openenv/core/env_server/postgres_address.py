"""Address of a PostgreSQL database, whose password is in no message."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from openenv.core.exceptions import ConfigurationError

# Defaults of connection parameters, which the address overrides.
_DEFAULTS = {
    "connect_timeout": "3",
    "application_name": "openenv",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class PostgresAddress:
    """Address of a database.

    Args:
        address: The address, ``postgresql://USER@HOST/DATABASE``. The password may be part of it, or be where the tools
            of PostgreSQL look for one.
        what: What is kept there, for messages.
        error_class: Class of the errors that ``errors`` raises.
        refusal_class: Class of those of values that a database refuses; by default the same.

    Attributes:
        name: The address for people, without the password.
        conninfo: What psycopg connects with.

    Raises:
        ConfigurationError: PostgreSQL can't read the address.
    """

    def __init__(
        self, address: str, what: str, error_class: type[Exception], refusal_class: type[Exception] | None = None
    ) -> None:
        parts = _parts_of(address, what)
        user, host = parts.get("user"), parts.get("host") or parts.get("hostaddr") or ""
        port, database = parts.get("port"), parts.get("dbname") or ""
        self.name = f"postgresql://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}/{database}"
        self.conninfo = make_conninfo(**{**_DEFAULTS, **parts})
        self._secret = str(parts.get("password") or "")
        self._error_class = error_class
        self._refusal_class = refusal_class or error_class

    def message_of(self, error: psycopg.Error) -> str:
        """Return an error's message, without the password."""
        message = " ".join(f"{error}".split()) or type(error).__name__
        message = message.replace(self._secret, "***") if self._secret else message
        return message if message.endswith(".") else f"{message}."

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert psycopg's errors within the block."""
        try:
            yield
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as error:
            raise self._refusal_class(self.message_of(error)) from None
        except psycopg.Error as error:
            raise self._error_class(self.message_of(error)) from None


def _parts_of(address: str, what: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(address))
    except psycopg.Error:  # its message quotes the address, password included
        raise ConfigurationError(
            f"Expected the address of the {what} to be like postgresql://USER@HOST:PORT/DATABASE, with % codes for "
            "characters that have a meaning there; got one that PostgreSQL can't read."
        ) from None
