"""Use clients and vectors in every way, meet errors, close what was opened, and end; any warning is one too many.

The argument is the address of a server with four places.
"""

import asyncio
import gc
import logging
import sys

from openenv.core.exceptions import OpenEnvError, ServerCapacityError
from openenv.core.generic_client import GenericEnvClient

ONE = {"amount": 1}


def is_no_measure_of_speed(record: logging.LogRecord) -> bool:
    """Event loops in debug mode complain of slow callbacks, which on a busy machine says nothing of the program."""
    return not str(record.msg).startswith("Executing ")


async def use(url: str) -> None:
    async with GenericEnvClient(base_url=url) as client:
        vector = await client.vector(4)
        await vector.reset()
        results = await vector.step([ONE, {"amount": 0}, {"amount": -1}, None])
        assert [isinstance(result, OpenEnvError) for result in results] == [False, True, True, False]
        other = GenericEnvClient(base_url=url)
        try:
            await other.reset()
        except ServerCapacityError:
            await other.close()
        else:
            raise AssertionError("a fifth session was opened in four places")


async def be_refused(url: str) -> None:
    """The last thing in this loop is a refusal."""
    client = GenericEnvClient(base_url=url)
    try:
        vector = await client.vector(5)
        assert any(isinstance(result, ServerCapacityError) for result in await vector.reset())
    except ServerCapacityError:
        pass
    await client.close()


def use_blocking(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client, client.vector(2) as vector:
        vector.reset()
        vector.step([ONE, None])
        client.reset()


def main(url: str) -> None:
    logging.getLogger("asyncio").addFilter(is_no_measure_of_speed)
    for _ in range(2):
        asyncio.run(use(url))
        asyncio.run(be_refused(url))
        use_blocking(url)
    gc.collect()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
