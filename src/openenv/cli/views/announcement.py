"""Lines that ``openenv serve`` prints once the server takes clients: its address, and who may use it."""

import os
import socket
from dataclasses import dataclass

import typer

from openenv.core.addresses import is_any, is_loopback, reachable, url_of
from openenv.core.env_server.access.policy import AuthRequirement, RequiredToken, needs_new_token, new_token
from openenv.core.env_server.settings import SETTINGS, ServerConfig
from openenv.core.wire.names import TOKEN_VARIABLE

# An address that is kept for documentation: no machine has it, and nothing is sent.
_SOMEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True)
class Announcement:
    """Address of a server, and how its clients reach it.

    Attributes:
        name: Name of the environment; empty for a page without an environment.
        host: Address that it listens on.
        port: The port.
        https: Whether it has a certificate.
        made_token: Whether the token in ``OPENENV_TOKEN`` was made for it, and neither chosen nor superfluous.
        quiet: Whether nothing is printed: the program that has started the server knows its address.
    """

    name: str
    host: str
    port: int
    https: bool = False
    made_token: bool = False
    quiet: bool = False

    def show(self, auth_requirement: AuthRequirement) -> None:
        """Print it."""
        if self.quiet:
            return
        url = url_of(reachable(self.host), self.port, https=self.https)
        typer.echo(f"Serving {self.name} at {url}")
        typer.echo(f"  play it   openenv play {url}")
        typer.echo(f"  watch it  openenv top {url}")
        typer.echo(f"  its API   {url}/docs")
        typer.echo("  stop it   Ctrl-C")
        self.show_access(auth_requirement)

    def show_access(self, auth_requirement: AuthRequirement) -> None:
        """Print how clients that need a token reach it: on other machines, and with ``auth="always"`` on this one."""
        if is_loopback(self.host) and auth_requirement.trusts_this_machine:
            return
        host = _address_for_others() if is_any(self.host) else self.host
        url = url_of(host, self.port, https=self.https)
        typer.echo()
        is_here = is_loopback(self.host)
        who = (
            "You reach" if is_here else "Other machines reach" if is_any(self.host) else "You and other machines reach"
        )
        if auth_requirement.token is RequiredToken.NONE:
            typer.echo(f"{who} it at {url}; no token is needed.")
        elif auth_requirement.token is RequiredToken.OF_APPLICATION:
            typer.echo(f"{who} it at {url} with the token that the environment's server sets.")
        elif auth_requirement.token is RequiredToken.OF_FILE:
            file = os.environ.get(SETTINGS["tokens"].variable, "the file that the environment's server names")
            typer.echo(f"{who} it at {url} with one of the tokens in {file}.")
        elif not self.made_token:
            typer.echo(f"{who} it at {url} with the token that {TOKEN_VARIABLE} holds here.")
        else:
            typer.echo(f"{who} it at {url} with this token, which is not shown again:")
            typer.echo()
            typer.echo(f"  export {TOKEN_VARIABLE}={os.environ[TOKEN_VARIABLE]}")
            if self.name:
                typer.echo(f"  openenv play {url}")
        remarks = []
        if not self.name and auth_requirement.token in (RequiredToken.OF_VARIABLE, RequiredToken.OF_FILE):
            remarks.append("The page requires the token.")
        if not self.https and not is_here:
            option = "add --ssl-certfile" if self.name else "use a tunnel, such as that of ssh -L"
            remarks.append(f"Nothing is encrypted. On a network where others may listen in, {option}.")
        if remarks:
            typer.echo()
            typer.echo("\n".join(remarks))


def make_token_for(host: str) -> bool:
    """Make a token for a server that listens on an address and needs one, set ``OPENENV_TOKEN``, and return if so."""
    if not needs_new_token(host, ServerConfig.read()):
        return False
    os.environ[TOKEN_VARIABLE] = new_token()
    return True


def _address_for_others() -> str:
    """Find the address by which other machines are likely to reach this one; its name where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return socket.gethostname()
        address: str = probe.getsockname()[0]
        return address
