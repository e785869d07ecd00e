"""What ``openenv serve`` prints once the server takes clients: its address, and how others get in."""

import os
import socket
from dataclasses import dataclass, field

import typer

from openenv.core.addresses import is_loopback
from openenv.core.env_server.security import AUTH_VARIABLE, TOKEN_VARIABLE, asks_token, needs_new_token, new_token

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # the addresses that stand for all of a machine's
# An address that is kept for documentation: nobody is there, and nothing is sent.
_SOMEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True)
class Announcement:
    """What is told of a server.

    Attributes:
        name: The environment's.
        host: The address that it listens on.
        port: The port.
        https: Whether it has a certificate.
        token: The token that was made for it; ``None`` where the user has given one, or none is needed.
    """

    name: str
    host: str
    port: int
    https: bool = False
    token: str | None = field(default=None, repr=False)

    def show(self) -> None:
        """Print it."""
        url = self._url(_ANY.get(self.host, self.host))
        typer.echo(f"Serving {self.name} at {url}")
        typer.echo(f"  play it   openenv play {url}")
        typer.echo(f"  its API   {url}/docs")
        typer.echo("  stop it   Ctrl-C")
        if not is_loopback(self.host):
            self._show_the_way_in()

    def _show_the_way_in(self) -> None:
        """Say how other machines reach it."""
        url = self._url(_address_for_others() if self.host in _ANY else self.host)
        typer.echo()
        who = "Other machines reach" if self.host in _ANY else "You and other machines reach"
        if not asks_token({}):
            typer.echo(f"{who} it at {url}; nobody is asked for a token ({AUTH_VARIABLE}=none).")
        elif self.token is None:
            typer.echo(f"{who} it at {url} with the token that {TOKEN_VARIABLE} holds here.")
        else:
            typer.echo(f"{who} it at {url} with this token, which is not shown again:")
            typer.echo()
            typer.echo(f"  export {TOKEN_VARIABLE}={self.token}")
            typer.echo(f"  openenv play {url}")
        if not self.https:
            typer.echo()
            typer.echo("Nothing is encrypted. On a network that others listen in to, add --ssl-certfile.")

    def _url(self, host: str) -> str:
        scheme = "https" if self.https else "http"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"


def token_for(host: str) -> str | None:
    """Make a token for a server that listens on an address and needs one, and hand it on in the environment.

    Returns:
        The token; ``None`` where none was made.
    """
    if not needs_new_token(host, {}):
        return None
    token = os.environ[TOKEN_VARIABLE] = new_token()
    return token


def _address_for_others() -> str:
    """Find the address by which other machines are likely to reach this one; its name where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return socket.gethostname()
        address: str = probe.getsockname()[0]
        return address
