"""Fleet at work: its servers, its address, and the number of its servers."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import uvicorn

from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.serving import uvicorn_settings
from openenv.core.env_server.types import ServerMode
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.fleet.autoscaling import Autoscaling
from openenv.fleet.background import BackgroundTasks
from openenv.fleet.gateway.forwarding import Forwarding
from openenv.fleet.gateway.gateway import Gateway
from openenv.fleet.gateway.sockets import SocketForwarding
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.replicas import Replicas
from openenv.fleet.status import FleetStatus, Phase

logger = logging.getLogger(__name__)

_AUTOSCALE_EVERY_S = 0.5
# After replicas could not be added, it is tried again no sooner.
_FAILED_PAUSE_S = 15.0


@dataclass(frozen=True)
class FleetPlan:
    """Settings of a fleet.

    Attributes:
        server: Settings of its servers.
        address: Address for clients.
        access: Its access policy.
        mode: Mode of its servers.
        autoscaling: Bounds between which it chooses the number of its servers; ``None`` leaves that to its user.
        longest_frame: Longest frame that is read from a WebSocket, in bytes.
        moves_sessions: Whether sessions continue at another server when theirs ends, since there is a journal.
        start_timeout_s: Seconds that a server may need until it is ready.
        hang_s: Seconds without an answer after which a server is replaced.
    """

    server: ServerPlan
    address: str
    access: AccessPolicy
    mode: ServerMode
    autoscaling: Autoscaling | None
    longest_frame: int
    moves_sessions: bool
    start_timeout_s: float
    hang_s: float


class RunningFleet:
    """A fleet at work. All of its methods belong to one event loop."""

    def __init__(self, plan: FleetPlan, free_resources: Callable[[], str]) -> None:
        self._plan = plan
        self._target = 0
        self._replicas = Replicas(
            plan.server, start_timeout_s=plan.start_timeout_s, hang_s=plan.hang_s, free_resources=free_resources
        )
        token = plan.access.token if plan.access.requires_token else None
        self._forwarding = Forwarding(token, plan.server.tls)
        sockets = SocketForwarding(token, plan.server.tls)
        self._gateway = Gateway(self._replicas, self._forwarding, sockets, self.status)
        self._changing = asyncio.Lock()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()
        self._busy_at = time.monotonic()
        self._may_grow_at = 0.0

    async def start(self, replicas: int, listener: socket.socket) -> None:
        """Start servers, and take clients once all of them are ready.

        Raises:
            ProviderError: A server could not be started.
        """
        await self.scale(replicas)
        server = self._plan.server
        settings = uvicorn_settings(server.log_level, server.log_format, server.tls)
        settings["ws_max_size"] = self._plan.longest_frame
        app = self._gateway.app(self._plan.access, self._plan.mode)
        self._server = uvicorn.Server(uvicorn.Config(app, lifespan="off", **settings))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        if self._plan.autoscaling is not None:
            self._tasks.run_lasting("autoscaling", partial(self._autoscale, self._plan.autoscaling))

    def status(self) -> FleetStatus:
        """Describe the fleet."""
        replicas = [replica.status() for replica in self._replicas]
        return FleetStatus(
            address=self._plan.address,
            target=self._target,
            sessions=sum(replica.sessions for replica in replicas),
            capacity=sum(replica.capacity for replica in replicas if replica.phase is Phase.SERVING),
            replicas=replicas,
        )

    async def scale(self, replicas: int) -> None:
        """Have so many servers; those that are too many drain. Returns when it is done.

        Raises:
            ConfigurationError: It is fewer than one, or not between the bounds.
            ProviderError: A server could not be started; there are then as many as before.
        """
        scaling = self._plan.autoscaling
        if replicas < 1 or (scaling is not None and scaling.within(replicas) != replicas):
            bounds = "at least 1" if scaling is None else f"{scaling.min_replicas} to {scaling.max_replicas}"
            raise ConfigurationError(f"Expected {bounds} replicas, got {replicas}.")
        async with self._changing:
            before, self._target = self._target, replicas
            too_many = self._replicas.count - replicas
            if too_many > 0:
                too_many -= await self._replicas.stop_replacing(too_many)
                emptiest = sorted(self._replicas.in_phase(Phase.SERVING), key=_sessions)[:too_many]
                await asyncio.gather(*(self._replicas.retire(replica, at_once=True) for replica in emptiest))
                return
            try:
                await self._add(-too_many)
            except ProviderError:
                self._target = before
                raise

    async def update(self, server: ServerPlan) -> None:
        """Replace all servers, one after another: first a new one starts, then an old one drains.

        Raises:
            ProviderError: A new server could not be started; the old ones that are left serve on, and servers that are
                started from then on are like them.
        """
        async with self._changing:
            before, self._replicas.plan = self._replicas.plan, server
            try:
                await self._replace_all()
            except BaseException:
                self._replicas.plan = before
                raise

    async def drain(self) -> None:
        """Let all episodes that are under way end. No further session is opened."""
        await self._replicas.drain()

    async def close(self) -> None:
        """End all servers, and the address."""
        await self._tasks.close()
        if self._server is not None:
            self._server.should_exit = True
        await self._replicas.close()  # before the address has ended: with them end the streams that it forwards
        if self._serving is not None:
            await self._serving
        await self._forwarding.close()

    async def _replace_all(self) -> None:
        updated = 0
        while await self._replicas.outdated():
            try:
                new = await self._replicas.start()
            except ProviderError as error:
                raise ProviderError(f"{updated} replicas were updated, the others serve on: {error}") from error
            outdated = await self._replicas.outdated()
            if outdated:
                outdated[0].successor = new
            # The last old one may have died meanwhile; then it was replaced, and the new one is one too many.
            await self._replicas.retire(outdated[0] if outdated else new, at_once=True)
            updated += 1

    async def _add(self, count: int) -> None:
        """Start further servers, all or none."""
        count -= self._replicas.keep_serving(count)
        started = await asyncio.gather(*(self._replicas.start() for _ in range(count)), return_exceptions=True)
        failures = [failure for failure in started if isinstance(failure, BaseException)]
        if failures:
            ended = (replica.end() for replica in started if isinstance(replica, Replica))
            await asyncio.gather(*ended)
            raise failures[0]

    async def _autoscale(self, scaling: Autoscaling) -> None:
        while True:
            await asyncio.sleep(_AUTOSCALE_EVERY_S)
            async with self._changing:
                if serving := self._replicas.in_phase(Phase.SERVING):
                    await self._fit(scaling, serving)

    async def _fit(self, scaling: Autoscaling, serving: list[Replica]) -> None:
        """Have as many servers as the sessions need; one fewer only where it has been calm for long enough."""
        now = time.monotonic()
        capacity = max(replica.load.capacity for replica in serving)
        sessions = sum(replica.load.used for replica in self._replicas)
        refused, self._replicas.refused = self._replicas.refused, 0
        needed = scaling.needed(sessions + refused, capacity)
        if needed > self._target:
            self._busy_at = now
            if now >= self._may_grow_at:
                await self._grow(needed)
        elif scaling.has_one_too_many(self._target, sessions, capacity):
            if now - self._busy_at >= scaling.calm_s and self._shrink(serving):
                self._busy_at = now
        else:
            self._busy_at = now

    async def _grow(self, needed: int) -> None:
        logger.info("%d replicas are added to %d", needed - self._target, self._target)
        try:
            await self._add(needed - self._target)
        except ProviderError as error:
            logger.error("no replicas could be added: %s", error)
            self._may_grow_at = time.monotonic() + _FAILED_PAUSE_S
        else:
            self._target = needed

    def _shrink(self, serving: list[Replica]) -> bool:
        """Remove the emptiest server, if its sessions can continue elsewhere or may stay until they end."""
        emptiest = min(serving, key=_sessions)
        others = [replica.load.free for replica in serving if replica is not emptiest]
        if len(serving) < self._target or max(others, default=0) < emptiest.load.used:
            return False
        logger.info("%s is removed", emptiest)
        self._target -= 1
        self._tasks.run(self._replicas.retire(emptiest, at_once=self._plan.moves_sessions))
        return True


_sessions = attrgetter("load.used")
