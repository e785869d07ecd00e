"""Many sessions of one environment, reset and stepped together: what a trainer holds."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from pydantic_core import to_json

from openenv.core.background_loop import background_loop
from openenv.core.client_types import ActT, ObsT, StateT, StepResult
from openenv.core.connection import ConnectionSettings
from openenv.core.env_client import read_answer
from openenv.core.exceptions import ConfigurationError, OpenEnvError, RequestRejectedError
from openenv.core.links import Hub, Link, V1Link, open_link, timed_out

if TYPE_CHECKING:
    from openenv.core.env_client import EnvClient

SlotResult: TypeAlias = StepResult[ObsT] | OpenEnvError | None
"""What a slot gave: a result, its error, or ``None`` where it was left out."""


class VectorEnv(Generic[ActT, ObsT, StateT]):
    """Many sessions, each in a slot of its own; made by ``EnvClient.vector``.

    What fails in one slot is that slot's result and nobody else's::

        games = await client.vector(64)
        results = await games.reset(seeds=range(64))
        results = await games.step(actions)

    Args:
        client: Says how actions and results look on the wire.
        settings: Where to connect to, and how.
        count: How many slots.
        autoreset: Whether a step resets a slot whose episode has ended, instead of stepping it.

    Attributes:
        num_envs: How many slots there are.

    Raises:
        ConfigurationError: ``count`` is below 1.
    """

    def __init__(
        self, client: "EnvClient[ActT, ObsT, StateT]", settings: ConnectionSettings, count: int, *, autoreset: bool
    ) -> None:
        if count < 1:
            raise ConfigurationError(f"Expected at least 1 slot, got {count}.")
        self.num_envs = count
        self._client = client
        self._settings = settings
        self._timeout_s = client.message_timeout_s
        self._autoreset = autoreset
        self._links: list[Link | None] = [None] * count
        self._tasks: list[Mapping[str, Any]] = [{}] * count
        self._ended = [False] * count
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """How many slots there are."""
        return self.num_envs

    async def open(self) -> None:
        """Open the sessions that are not open.

        Raises:
            ConnectionFailedError: There is no server, or it refused.
            ServerError: It grants fewer sessions, or could not make the environments.
        """
        try:
            for error in await self._open(range(self.num_envs)):
                if error is not None:
                    raise error
        except BaseException:
            await self.close()
            raise

    async def reset(
        self,
        *,
        seeds: Sequence[int | None] | None = None,
        tasks: Sequence[Mapping[str, Any] | None] | None = None,
        slots: Sequence[int] | None = None,
    ) -> list[SlotResult[ObsT]]:
        """Start an episode in every slot.

        Args:
            seeds: A seed for each slot; ``None`` for none.
            tasks: The task's parameters for each slot; ``None`` for none.
            slots: Numbers of the slots to reset, where it is not all; ``seeds`` and ``tasks`` are then theirs.

        Returns:
            One entry for each slot: its first observation, its error, or ``None`` where it was left out.

        Raises:
            ConfigurationError: There are not as many seeds or tasks as slots, or no such slot.
        """
        chosen = self._chosen(slots)
        given_seeds = _as_many("seeds", seeds, len(chosen))
        given_tasks = _as_many("tasks", tasks, len(chosen))
        requests: dict[int, _Request] = {}
        for slot, seed, task in zip(chosen, given_seeds, given_tasks, strict=True):
            self._tasks[slot] = task or {}
            arguments = self._tasks[slot] if seed is None else {**self._tasks[slot], "seed": int(seed)}
            requests[slot] = (b"reset", to_json(arguments))
        return await self._exchange(requests)

    async def step(self, actions: Sequence[ActT | None]) -> list[SlotResult[ObsT]]:
        """Do one action in every slot.

        Args:
            actions: An action for each slot; ``None`` leaves the slot out.

        Returns:
            One entry for each slot: its result, its error, or ``None`` where it was left out. With ``autoreset``, the
            result of a slot that was reset is its first observation; the action is not used, and the next episode has
            the task of the last one and no seed.

        Raises:
            ConfigurationError: There are not as many actions as slots.
        """
        requests: dict[int, _Request] = {}
        for slot, action in enumerate(_as_many("actions", actions, self.num_envs)):
            if action is None:
                continue
            if self._autoreset and self._ended[slot]:
                requests[slot] = (b"reset", to_json(self._tasks[slot]))
            else:
                requests[slot] = (b"step", to_json(self._client._step_payload(action)))
        return await self._exchange(requests)

    async def close(self) -> None:
        """End the sessions."""
        links, self._links = self._links, [None] * self.num_envs
        await asyncio.gather(*(link.end() for link in links if link is not None))

    async def __aenter__(self) -> Self:
        """Return the vector; its sessions are open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the sessions."""
        await self.close()

    def _chosen(self, slots: Sequence[int] | None) -> Sequence[int]:
        if slots is None:
            return range(self.num_envs)
        if len(set(slots)) < len(slots) or not all(0 <= slot < self.num_envs for slot in slots):
            raise ConfigurationError(f"Expected different slots from 0 to {self.num_envs - 1}, got {list(slots)}.")
        return slots

    async def _open(self, slots: Sequence[int]) -> list[OpenEnvError | None]:
        links = await asyncio.gather(*(open_link(self._settings) for _ in slots), return_exceptions=True)
        errors: list[OpenEnvError | None] = []
        for slot, link in zip(slots, links, strict=True):
            errors.append(self._seat(slot, link))
        return errors

    def _seat(self, slot: int, link: Link | BaseException) -> OpenEnvError | None:
        if isinstance(link, OpenEnvError):
            return link
        if isinstance(link, BaseException):
            raise link
        refusal = link.refusal()
        if refusal is not None:
            return _error_of(link, refusal)
        self._links[slot] = link
        return None

    async def _exchange(self, requests: "Mapping[int, _Request]") -> list[SlotResult[ObsT]]:
        """Send the requests together and gather what becomes of them."""
        async with self._turn:  # of calls that come together, one after another
            results: list[SlotResult[ObsT]] = [None] * self.num_envs
            batch = _Batch(self._client._parse_result, results, asyncio.get_running_loop())
            closed = [slot for slot in requests if not self._is_open(slot)]
            if closed:
                for slot, error in zip(closed, await self._open(closed), strict=True):
                    results[slot] = error
            self._send(requests, batch)
            await self._all_answered(batch)
            for slot in requests:
                self._note(slot, results[slot])
            return results

    def _is_open(self, slot: int) -> bool:
        link = self._links[slot]
        return link is not None and link.answers

    def _send(self, requests: "Mapping[int, _Request]", batch: "_Batch[ObsT]") -> None:
        outboxes: dict[Hub, list[bytes]] = {}
        for slot, (kind, data) in requests.items():
            link = self._links[slot]
            if link is None or batch.results[slot] is not None:  # it could not be opened
                continue
            answer = batch.expect(slot, link)
            if isinstance(link, V1Link):
                message = link.prepare(kind, data, answer)
                if message is not None:
                    outboxes.setdefault(link.hub, []).append(message)
            else:
                link.ask(kind, data, answer)
        for hub, messages in outboxes.items():
            hub.send(messages)

    async def _all_answered(self, batch: "_Batch[ObsT]") -> None:
        """Wait for the answers. A slot whose answer does not come in time is given up."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await batch.complete()
        except TimeoutError:
            for answer in batch.missing():
                answer.link.drop()
                answer.set_exception(timed_out(self._timeout_s))

    def _note(self, slot: int, result: SlotResult[ObsT]) -> None:
        if isinstance(result, StepResult):
            self._ended[slot] = result.done
        elif not isinstance(result, RequestRejectedError):  # after which the episode goes on
            self._ended[slot] = True


_Request: TypeAlias = tuple[bytes, bytes]


class _Batch(Generic[ObsT]):
    """The answers to requests that were sent together.

    Args:
        parse: Makes a result from an answer's ``data``.
        results: Takes what becomes of each slot.
        loop: The loop that they come in.
    """

    def __init__(
        self,
        parse: Callable[[dict[str, Any]], StepResult[ObsT]],
        results: list[SlotResult[ObsT]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.parse = parse
        self.results = results
        self._expected: list[_SlotAnswer[ObsT]] = []
        self._outstanding = 0
        self._complete: asyncio.Future[None] = loop.create_future()

    def expect(self, slot: int, link: Link) -> "_SlotAnswer[ObsT]":
        """Make the answer that a slot waits for."""
        answer = _SlotAnswer(self, slot, link)
        self._expected.append(answer)
        self._outstanding += 1
        return answer

    def arrived(self) -> None:
        """Note that one of them has come."""
        self._outstanding -= 1
        if self._outstanding == 0 and not self._complete.done():
            self._complete.set_result(None)

    def missing(self) -> list["_SlotAnswer[ObsT]"]:
        """List those that have not come."""
        return [answer for answer in self._expected if not answer.done()]

    async def complete(self) -> None:
        """Wait until all have come."""
        if self._outstanding:
            await self._complete


class _SlotAnswer(Generic[ObsT]):
    """The answer that a slot waits for; parsed as it comes, while others are still on their way."""

    __slots__ = ("_batch", "_done", "_slot", "link")

    def __init__(self, batch: _Batch[ObsT], slot: int, link: Link) -> None:
        self.link = link
        self._batch = batch
        self._slot = slot
        self._done = False

    def set_result(self, message: Any) -> None:
        """Take the answer."""
        try:
            result: SlotResult[ObsT] = read_answer(self.link, message, "observation", self._batch.parse)
        except OpenEnvError as error:
            result = error
        self._settle(result)

    def set_exception(self, error: BaseException) -> None:
        """Learn that there will be none."""
        assert isinstance(error, OpenEnvError)
        self._settle(error)

    def done(self) -> bool:
        """Whether it has come."""
        return self._done

    def _settle(self, result: SlotResult[ObsT]) -> None:
        if self._done:
            return
        self._done = True
        self._batch.results[self._slot] = result
        self._batch.arrived()


class SyncVectorEnv(Generic[ActT, ObsT, StateT]):
    """A vector whose methods block; made by ``SyncEnvClient.vector``.

    Args:
        vector: The vector to drive, which lives in the process's background loop.

    Attributes:
        num_envs: How many slots there are.
    """

    def __init__(self, vector: VectorEnv[ActT, ObsT, StateT]) -> None:
        self.vector = vector
        self.num_envs = vector.num_envs

    def __len__(self) -> int:
        """How many slots there are."""
        return self.num_envs

    def reset(
        self,
        *,
        seeds: Sequence[int | None] | None = None,
        tasks: Sequence[Mapping[str, Any] | None] | None = None,
        slots: Sequence[int] | None = None,
    ) -> list[SlotResult[ObsT]]:
        """Start an episode in every slot; see ``VectorEnv.reset``."""
        return background_loop().run(self.vector.reset(seeds=seeds, tasks=tasks, slots=slots))

    def step(self, actions: Sequence[ActT | None]) -> list[SlotResult[ObsT]]:
        """Do one action in every slot; see ``VectorEnv.step``."""
        return background_loop().run(self.vector.step(actions))

    def close(self) -> None:
        """End the sessions."""
        background_loop().run(self.vector.close())

    def __enter__(self) -> Self:
        """Return the vector; its sessions are open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the sessions."""
        self.close()


def _error_of(link: Link, refusal: Any) -> OpenEnvError | None:
    try:
        read_answer(link, refusal, "opened", dict)
    except OpenEnvError as error:
        return error
    return None


def _as_many(name: str, values: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if values is None:
        return [None] * count
    if len(values) != count:
        raise ConfigurationError(f"Expected {count} {name}, one for each slot; got {len(values)}.")
    return values
