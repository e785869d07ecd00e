"""Lose the server, and end while the client is connecting again; any warning is one too many.

The arguments are the address of a server, which is taken away after ``ready``, and ``async`` or ``sync``.
"""

import asyncio
import sys
import threading

from openenv.core.generic_client import GenericEnvClient


async def use(url: str) -> None:
    client = GenericEnvClient(base_url=url)
    vector = await client.vector(2)
    await vector.reset()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    stepping = asyncio.ensure_future(vector.step([{"amount": 1}] * 2))
    await asyncio.sleep(0.3)
    assert not stepping.done()


def use_blocking(url: str) -> None:
    client = GenericEnvClient(base_url=url).sync()
    client.reset()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    stepping = threading.Thread(target=client.step, args=({"amount": 1},), daemon=True)
    stepping.start()
    stepping.join(0.3)
    assert stepping.is_alive()


def main(url: str, way: str) -> None:
    if way == "async":
        asyncio.run(use(url))
    else:
        use_blocking(url)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
