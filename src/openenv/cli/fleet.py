"""``openenv serve --fleet``: many servers of an environment behind one address, until a signal ends the process."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from openenv.adapters.targets import AdaptedEnvironment
from openenv.auto.package import EnvironmentPackage
from openenv.cli.views.announcement import Announcement, make_token_for
from openenv.core.addresses import is_loopback
from openenv.core.env_server.serving import RunOptions
from openenv.core.exceptions import OpenEnvError
from openenv.core.providers.resources import Resources
from openenv.core.variables import Option
from openenv.core.wire.names import TOKEN_VARIABLE
from openenv.fleet.autoscaling import Autoscaling

if TYPE_CHECKING:
    from openenv.fleet.fleet import Fleet

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens on it: it stands for addresses that others reach
_LOOK_EVERY_S = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM)


_FLEET = Option(heading="Fleet")


@dataclass(frozen=True)
class FleetOptions:
    """Options of a fleet.

    Attributes:
        kind: Serve with many servers behind one address, on Ray.
        replicas: With --fleet: servers to begin with.
        min_replicas: With --fleet: the fewest servers; default: --replicas.
        max_replicas: With --fleet: the most servers, added as sessions need them; default: --replicas.
        cpus: With --fleet: processors that each server needs.
        memory: With --fleet: memory that each server needs, as 2g.
    """

    kind: Annotated[Literal["ray"] | None, Option(("--fleet",), heading="Fleet")] = field(default=None, kw_only=True)
    replicas: Annotated[int, Field(ge=1), _FLEET] = 1
    min_replicas: Annotated[int | None, Field(ge=1), _FLEET] = None
    max_replicas: Annotated[int | None, Field(ge=1), _FLEET] = None
    cpus: Annotated[float | None, Field(ge=0.01), Option(("--replica-cpus",), heading="Fleet")] = None
    memory: Annotated[str | None, Option(("--replica-memory",), metavar="SIZE", heading="Fleet")] = None

    @property
    def autoscaling(self) -> Autoscaling | None:
        """The bounds, where there are any."""
        if self.min_replicas is None and self.max_replicas is None:
            return None
        fewest = self.replicas if self.min_replicas is None else self.min_replicas
        largest = max(self.replicas, fewest) if self.max_replicas is None else self.max_replicas
        return Autoscaling(fewest, largest)

    @property
    def resources(self) -> Resources | None:
        """Resources of each server, where an option has them."""
        return None if self.cpus is None and self.memory is None else Resources(cpus=self.cpus, memory=self.memory)


def serve_fleet(
    environment: str | EnvironmentPackage | AdaptedEnvironment,
    host: str,
    port: int,
    options: FleetOptions,
    run_options: RunOptions,
) -> None:
    """Serve until a signal: SIGTERM lets episodes end first, Ctrl-C does not, SIGHUP updates all servers."""
    from openenv.fleet.cluster import ADDRESS_VARIABLE  # most servers are none of a fleet
    from openenv.fleet.fleet import Fleet

    is_shared = bool(os.environ.get(ADDRESS_VARIABLE))  # by machines of which clients must reach each one
    made_token = make_token_for(_ANY_ADDRESS if is_shared else host)
    fleet = Fleet(
        environment,
        replicas=options.replicas,
        host=host,
        port=port,
        autoscaling=options.autoscaling,
        resources=options.resources,
        **run_options,
    )
    signals: SimpleQueue[int] = SimpleQueue()
    try:
        fleet.start()
        for number in (*_STOPPING, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: signals.put(number))
        bound, bound_port = fleet.bound
        announcement = Announcement(fleet.name, bound, bound_port, run_options["tls"] is not None, made_token)
        _announce(fleet, announcement, is_shared=is_shared)
        stopped_by = _serve_until_signal(fleet, signals)
    finally:
        for number in _STOPPING:  # until nothing is left of what was started
            signal.signal(number, _ignore)
        fleet.close()
    if stopped_by == signal.SIGINT:
        typer.echo()
        raise typer.Exit(130)
    signal.signal(stopped_by, signal.SIG_DFL)
    signal.raise_signal(stopped_by)


def _serve_until_signal(fleet: "Fleet", signals: "SimpleQueue[int]") -> int:
    """Serve until a signal that ends the fleet, carry out each signal, and return the last."""
    while (number := signals.get()) == signal.SIGHUP:
        _until_signal(signals, partial(_update, fleet))
    if number == signal.SIGTERM:
        _until_signal(signals, fleet.drain)
    return number


def _until_signal(signals: "SimpleQueue[int]", work: Callable[[], None]) -> None:
    """Do something until it is done, or until the next signal."""
    working = Thread(target=work, daemon=True)
    working.start()
    while working.is_alive() and signals.empty():
        working.join(_LOOK_EVERY_S)


def _update(fleet: "Fleet") -> None:
    typer.echo("Updating: each server is replaced by a new one.")
    try:
        fleet.update()
    except OpenEnvError as error:
        typer.echo(f"Error: {error}", err=True)
    else:
        typer.echo("Updated.")


def _announce(fleet: "Fleet", announcement: Announcement, *, is_shared: bool) -> None:
    status = fleet.status()
    announcement.show(fleet.auth_requirement)
    typer.echo()
    servers = "1 server" if len(status.replicas) == 1 else f"{len(status.replicas)} servers"
    typer.echo(f"{servers} with {status.capacity:,} slots for sessions: {fleet.address}/fleet")
    if is_shared and is_loopback(announcement.host) and announcement.made_token:
        typer.echo("They may be on other machines. Their clients need this token, which is not shown again:")
        typer.echo(f"  export {TOKEN_VARIABLE}={fleet.token}")


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """Ignore a signal while the fleet ends."""
