"""Many sessions of one environment, reset and stepped together: what a trainer holds."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeAlias, cast

from pydantic_core import to_json

from openenv.core.client.blocking import NOTHING, LoopLock, background_loop
from openenv.core.client.formats import WireFormat
from openenv.core.client.results import ActT, Done, ObsT, StateT, StepResult, awaitable
from openenv.core.client.transport.connection import Endpoint
from openenv.core.client.transport.outgoing import OutgoingRequest
from openenv.core.client.transport.pool import open_session
from openenv.core.client.transport.session import RESET, ClientSession, given_up, read_answer, session_here, timed_out
from openenv.core.client.transport.shared_session import Channel, SharedSession
from openenv.core.exceptions import (
    ConfigurationError,
    InvalidAnswerError,
    OpenEnvError,
    RequestNotSentError,
    RequestRejectedError,
)
from openenv.core.plain_values import plain_value
from openenv.core.wire.messages import MessageType

SlotResult: TypeAlias = StepResult[ObsT] | OpenEnvError | None
"""What a slot gave: a result, its error, or ``None`` where it was left out."""

_Request: TypeAlias = tuple[bytes, bytes]

logger = logging.getLogger(__name__)

_OBSERVATION = MessageType.OBSERVATION.value  # plain strings compare faster than members of an enumeration

# The log says which slots are waited for after as long, or half of the time that an answer may take; and then again
# where they are waited for twice as long as any before.
_PATIENCE_S = 10.0
_MOST_NAMED = 16

# Requests after which a frame is sent while the next ones are still being written, so that the server begins on them.
_REQUESTS_IN_A_FRAME = 32


class VectorEnv(Generic[ActT, ObsT, StateT]):
    """Many sessions, each in a slot of its own; made by ``EnvClient.vector``.

    A failure in one slot is the result of that slot alone::

        games = await client.vector(64)
        results = await games.reset(seeds=range(64))
        results = await games.step(actions)

    Args:
        formats: How actions and results look on the wire, for each slot.
        timeout_s: Seconds that an answer may take; ``None`` for no limit.
        capacity_wait_s: Seconds to wait in the queue for a session.
        autoreset: Whether a step resets a slot whose episode has ended, instead of stepping it.

    Attributes:
        num_envs: How many slots there are.
        closed: Whether it was closed; it can't be used again then.
    """

    def __init__(
        self,
        formats: Sequence[WireFormat[ActT, ObsT, StateT]],
        timeout_s: float | None,
        capacity_wait_s: float,
        *,
        autoreset: bool,
    ) -> None:
        self.num_envs = count = len(formats)
        self.closed = False
        self._formats = formats
        self._parsers = [each.parse_result for each in formats]
        self._capacity_wait_s = capacity_wait_s
        self._endpoint: Endpoint | None = None
        self._timeout_s = timeout_s
        self._patience_s = _PATIENCE_S if self._timeout_s is None else min(_PATIENCE_S, self._timeout_s / 2)
        self._autoreset = autoreset
        self._sessions: list[ClientSession | None] = [None] * count
        self._loop: asyncio.AbstractEventLoop | None = None
        # The arguments of each slot's last reset, without its seed, as JSON.
        self._tasks = [b"{}"] * count
        self._ended = [False] * count
        self._turn = LoopLock()

    def __getstate__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "This vector was used, and its sessions can't be pickled or copied. Pickle a client before its first use, "
            "or make one in the other process, and open a vector there."
        )

    def __len__(self) -> int:
        """How many slots there are."""
        return self.num_envs

    async def open(self, endpoint: Endpoint) -> None:
        """Open the sessions that are not open.

        Args:
            endpoint: Where to connect to, and how.

        Raises:
            ConfigurationError: The vector was closed.
            ConnectionFailedError: There is no server, or it refused.
            ServerError: It grants fewer sessions, or could not make the environments.
        """
        self._endpoint = endpoint
        try:
            self._come_to_this_loop()
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
            ClientModeError: The vector is used in another event loop.
            ConfigurationError: There are not as many seeds or tasks as slots, no such slot, or the vector was closed.
        """
        chosen = self._chosen(slots)
        given_seeds = _as_many("seeds", seeds, len(chosen))
        given_tasks = _as_many("tasks", tasks, len(chosen))
        tasks_json = [to_json(task or {}, fallback=plain_value) for task in given_tasks]
        requests: dict[int, _Request] = {}
        for slot, seed, task, task_json in zip(chosen, given_seeds, given_tasks, tasks_json, strict=True):
            data = task_json if seed is None else to_json({**(task or {}), "seed": index(seed)}, fallback=plain_value)
            requests[slot] = (RESET, data)
        async with self._turn.here():
            for slot, task_json in zip(chosen, tasks_json, strict=True):
                self._tasks[slot] = task_json
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
            ClientModeError: The vector is used in another event loop.
            ConfigurationError: There are not as many actions as slots, or the vector was closed.
        """
        given = _as_many("actions", actions, self.num_envs)
        async with self._turn.here():  # of calls that come together, one after another
            requests: dict[int, _Request] = {}
            for slot, action in enumerate(given):
                if action is None:
                    continue
                if self._autoreset and self._ended[slot]:
                    requests[slot] = (RESET, self._tasks[slot])
                else:
                    requests[slot] = (b"step", to_json(self._formats[slot].step_payload(action), fallback=plain_value))
            return await self._exchange(requests)

    def session(self, slot: int) -> ClientSession | None:
        """Return the session of a slot; ``None`` where it is to be opened again."""
        return self._sessions[slot]

    async def close(self) -> None:
        """End the sessions. The vector can't be used again."""
        self.closed = True
        sessions, self._sessions = self._sessions, [None] * self.num_envs
        await asyncio.gather(*(session.close() for session in sessions if session is not None))

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

    def _come_to_this_loop(self) -> None:
        """Let go of the sessions of a loop that has ended.

        Raises:
            ClientModeError: That loop still runs.
            ConfigurationError: The vector was closed.
        """
        if self.closed:
            raise ConfigurationError("The vector was closed; open another one with the client's vector().")
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._sessions = [session_here(session, type(self).__name__) for session in self._sessions]
            self._loop = loop

    async def _open(self, slots: Iterable[int]) -> list[OpenEnvError | None]:
        return await asyncio.gather(*(self._open_slot(slot) for slot in slots))

    async def _open_slot(self, slot: int) -> OpenEnvError | None:
        assert self._endpoint is not None
        try:
            session = await open_session(self._endpoint, self._timeout_s, self._capacity_wait_s)
        except OpenEnvError as error:
            return error
        if self.closed:  # meanwhile
            await session.close()
            return given_up()
        self._sessions[slot] = session
        return None

    async def _exchange(self, requests: Mapping[int, _Request]) -> list[SlotResult[ObsT]]:
        """Send the requests together and gather what becomes of them; needs the turn."""
        self._come_to_this_loop()
        results = await self._exchange_once(requests)
        unsent = {
            slot: one
            for slot, one in requests.items()
            if one[0] == RESET and isinstance(results[slot], RequestNotSentError)
        }
        if unsent:
            again = await self._exchange_once(unsent)
            for slot in unsent:
                results[slot] = again[slot]
        return results

    async def _exchange_once(self, requests: Mapping[int, _Request]) -> list[SlotResult[ObsT]]:
        batch = _Batch(self.num_envs, self._parsers, self._note)
        unusable = [slot for slot in requests if not self._is_open(slot)]
        if unusable:
            lost = self._lost(unusable, requests)
            for slot, loss in lost.items():
                batch.settle(slot, loss)
            closed = [slot for slot in unusable if slot not in lost]
            for slot, error in zip(closed, await self._open(closed), strict=True):
                if error is not None:
                    batch.settle(slot, error)
        self._send(requests, batch)
        await self._all_answered(batch)
        return batch.results

    def _lost(self, unusable: Iterable[int], requests: Mapping[int, _Request]) -> dict[int, OpenEnvError]:
        """Return the errors of slots whose sessions were lost between calls. A reset need not report them."""
        losses: dict[int, OpenEnvError] = {}
        for slot in unusable:
            session = self._sessions[slot]
            loss = None if session is None else session.unreported_loss()
            if loss is not None and requests[slot][0] != RESET:
                losses[slot] = loss
        return losses

    def _is_open(self, slot: int) -> bool:
        session = self._sessions[slot]
        return session is not None and session.answers

    def _send(self, requests: Mapping[int, _Request], batch: "_Batch[ObsT]") -> None:
        outboxes: dict[Channel, list[OutgoingRequest]] = {}
        for slot, (kind, data) in requests.items():
            session = self._sessions[slot]
            if batch.results[slot] is not None:  # it was lost, or could not be opened
                continue
            if session is None:  # the vector was closed while others were opened
                batch.settle(slot, given_up())
                continue
            answer = batch.expect(slot, session)
            if not isinstance(session, SharedSession):
                session.send_request(kind, data, answer)
                continue
            request = session.prepare(kind, data, answer)
            if request is None:  # answered already
                continue
            outbox = outboxes.setdefault(session.channel, [])
            outbox.append(request)
            if len(outbox) == _REQUESTS_IN_A_FRAME:
                session.channel.send_requests(outboxes.pop(session.channel))
        for channel, prepared in outboxes.items():
            channel.send_requests(prepared)

    async def _all_answered(self, batch: "_Batch[ObsT]") -> None:
        """Wait for the answers. A slot whose answer does not come in time is given up."""
        waited_s = 0.0
        while self._timeout_s is None or waited_s < self._timeout_s:
            until_s = self._patience_s if self._timeout_s is None else min(self._patience_s, self._timeout_s)
            try:
                async with asyncio.timeout(until_s - waited_s):
                    await batch.complete()
                return
            except TimeoutError:
                waited_s = until_s
                self._say_who_is_waited_for(batch, waited_s)
        for answer in batch.missing():
            answer.set_exception(timed_out(self._timeout_s))
            answer.session.abort()

    def _say_who_is_waited_for(self, batch: "_Batch[ObsT]", waited_s: float) -> None:
        slots = ", ".join(str(answer.slot) for answer in batch.missing()[:_MOST_NAMED])
        if self._timeout_s is not None and waited_s >= self._timeout_s:
            logger.warning("no answer of the environment within %g s, given up: slot %s", waited_s, slots)
            return
        self._patience_s = 2 * waited_s
        limit = "" if self._timeout_s is None else f", which may take {self._timeout_s:g} s"
        logger.warning("waiting for the environment's answer for %g s now%s: slot %s", waited_s, limit, slots)

    def _note(self, slot: int, result: SlotResult[ObsT]) -> None:
        if isinstance(result, StepResult):
            self._ended[slot] = result.done
        elif not isinstance(result, RequestRejectedError):  # after which the episode goes on
            self._ended[slot] = True


class _Batch(Generic[ObsT]):
    """The answers to requests that were sent together.

    Args:
        count: How many slots there are.
        parsers: Make a result from an answer's ``data``, for each slot.
        note: Called with each slot's result, also after its caller was cancelled.
    """

    def __init__(
        self,
        count: int,
        parsers: Sequence[Callable[[dict[str, Any]], StepResult[ObsT]]],
        note: Callable[[int, SlotResult[ObsT]], None],
    ) -> None:
        self.parsers = parsers
        self.results: list[SlotResult[ObsT]] = [None] * count
        self._note = note
        self._expected: list[_SlotWaiter[ObsT]] = []
        self._outstanding = 0
        self._complete: asyncio.Future[None] | None = None

    def expect(self, slot: int, session: ClientSession) -> "_SlotWaiter[ObsT]":
        """Make the answer that a slot waits for."""
        answer = _SlotWaiter(self, slot, session)
        self._expected.append(answer)
        self._outstanding += 1
        return answer

    def settle(self, slot: int, result: SlotResult[ObsT]) -> None:
        """Note what became of a slot."""
        self.results[slot] = result
        self._note(slot, result)

    def arrived(self) -> None:
        """Note that an answer has come."""
        self._outstanding -= 1
        if self._outstanding == 0 and self._complete is not None and not self._complete.done():
            self._complete.set_result(None)

    def missing(self) -> list["_SlotWaiter[ObsT]"]:
        """List those that have not come."""
        return [answer for answer in self._expected if not answer.done()]

    async def complete(self) -> None:
        """Wait until all have come; all must have been expected by now."""
        if self._outstanding:
            self._complete = asyncio.get_running_loop().create_future()
            await self._complete


class _SlotWaiter(Generic[ObsT]):
    """The answer that a slot waits for; parsed as it comes, while others are still on their way."""

    __slots__ = ("_batch", "_done", "session", "slot")

    def __init__(self, batch: _Batch[ObsT], slot: int, session: ClientSession) -> None:
        self.session = session
        self._batch = batch
        self.slot = slot
        self._done = False

    def set_result(self, message: Any) -> None:
        """Take the answer."""
        try:
            result: SlotResult[ObsT] = read_answer(self.session, message, _OBSERVATION, self._batch.parsers[self.slot])
        except OpenEnvError as error:
            result = error
        except Exception as error:  # noqa: BLE001  # of a client's own _parse_result: it must not harm other slots
            result = InvalidAnswerError(f"The client could not read the server's answer: {error!r}")
            result.__cause__ = error
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
        self._batch.settle(self.slot, result)
        self._batch.arrived()


class SyncVectorEnv(Done, Generic[ActT, ObsT, StateT]):
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
        return awaitable(background_loop().run(self.vector.reset(seeds=seeds, tasks=tasks, slots=slots)))

    def step(self, actions: Sequence[ActT | None]) -> list[SlotResult[ObsT]]:
        """Do one action in every slot; see ``VectorEnv.step``."""
        return awaitable(background_loop().run(self.vector.step(actions)))

    def close(self) -> None:
        """End the sessions."""
        background_loop().run(self.vector.close())
        return cast("None", NOTHING)

    def __enter__(self) -> Self:
        """Return the vector; its sessions are open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the sessions."""
        self.close()


def _as_many(name: str, values: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if values is None:
        return [None] * count
    if len(values) != count:
        raise ConfigurationError(f"Expected {count} {name}, one for each slot; got {len(values)}.")
    return values
