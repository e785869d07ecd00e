"""The certificate with which a server proves who it is."""

import ssl
from dataclasses import dataclass, field
from typing import Any

from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class TLS:
    """The files of a certificate.

    Attributes:
        certfile: The certificate, with those of the authorities between it and the root, as PEM.
        keyfile: Its private key, as PEM; ``None`` where it is in ``certfile``.
        password: What the key is encrypted with; ``None`` for nothing.

    Raises:
        ConfigurationError: The files can't be read, do not belong together, or the password is another one.
    """

    certfile: str
    keyfile: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a password to offer, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.certfile, self.keyfile, password=lambda: self.password or "")
        except OSError as error:  # ssl.SSLError included
            reason = error.strerror or str(error)
            raise ConfigurationError(
                f"Can't use the certificate {self.certfile} with the key {self.keyfile or 'in the same file'}: "
                f"{reason}. Expected PEM files that belong together and, for an encrypted key, its password."
            ) from error

    @classmethod
    def of(cls, certfile: str | None, keyfile: str | None, password: str | None) -> "TLS | None":
        """Make it of what a user gave; ``None`` where there is nothing.

        Raises:
            ConfigurationError: There is a key and no certificate; or as for the class.
        """
        if certfile is not None:
            return cls(certfile, keyfile, password)
        if keyfile is not None:
            raise ConfigurationError("Expected a certificate (ssl_certfile) to go with ssl_keyfile, got none.")
        return None

    def uvicorn_settings(self) -> dict[str, Any]:
        """Say it in uvicorn's words."""
        return {"ssl_certfile": self.certfile, "ssl_keyfile": self.keyfile, "ssl_keyfile_password": self.password}
