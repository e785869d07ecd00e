"""Use a client and end without closing it; the arguments are the server's address, and ``async`` or ``sync``."""

import asyncio
import sys

from openenv.core.generic_client import GenericEnvClient


async def use(client: GenericEnvClient) -> None:
    await client.reset()
    await (await client.vector(2)).reset()


def main(url: str, way: str) -> None:
    client = GenericEnvClient(base_url=url)
    if way == "async":
        asyncio.run(use(client))
    else:
        blocking = client.sync()
        blocking.reset()
        blocking.vector(2).reset()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
