"""Tasks that run beside the fleet's own work: their errors are logged, and lasting ones start again."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)

_RESTART_PAUSE_S = 0.5


class BackgroundTasks:
    """Tasks whose result no caller awaits.

    An exception in such a task would otherwise stay unseen until the task is collected, and the work would end with it.

    Example:
        >>> async def main() -> None:
        ...     tasks = BackgroundTasks()
        ...     await tasks.run(asyncio.sleep(0))
        ...     await tasks.close()
        >>> asyncio.run(main())
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that ends by itself; an exception in it is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def run_lasting(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start work that an exception must not end: it is logged, and the work starts again after a pause."""
        return self.run(_until_done(name, work))

    async def close(self) -> None:
        """Cancel what still runs, and wait for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a background task of the fleet failed", exc_info=error)


async def _until_done(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            return await work()
        except Exception:
            logger.exception("%s failed; it starts again", name)
        await asyncio.sleep(_RESTART_PAUSE_S)
