"""TLS certificate of a server."""

import ssl
from dataclasses import dataclass, field
from typing import Any

from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class TLS:
    """Files of a TLS certificate.

    Attributes:
        certfile: The certificate and the intermediate certificates, as PEM.
        keyfile: Its private key, as PEM; ``None`` if it is in ``certfile``.
        password: Password of the encrypted key; ``None`` for an unencrypted key.

    Raises:
        ConfigurationError: The files can't be read or do not match, or the password is wrong.
    """

    certfile: str
    keyfile: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a password, OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(self.certfile, self.keyfile, password=lambda: self.password or "")
        except OSError as error:  # ssl.SSLError included
            reason = error.strerror or str(error)
            raise ConfigurationError(
                f"Can't use the certificate {self.certfile} with the key {self.keyfile or 'in the same file'}: "
                f"{reason}. Expected PEM files that belong together and, for an encrypted key, its password."
            ) from error

    @classmethod
    def of(cls, certfile: str | None, keyfile: str | None, password: str | None) -> "TLS | None":
        """Make the certificate from a user's options; ``None`` without any.

        Raises:
            ConfigurationError: There is a key without a certificate; or as for the class.
        """
        if certfile is not None:
            return cls(certfile, keyfile, password)
        if keyfile is not None:
            raise ConfigurationError("Expected a certificate (ssl_certfile) to go with ssl_keyfile, got none.")
        return None

    def uvicorn_settings(self) -> dict[str, Any]:
        """Return the certificate as uvicorn's settings."""
        return {"ssl_certfile": self.certfile, "ssl_keyfile": self.keyfile, "ssl_keyfile_password": self.password}
