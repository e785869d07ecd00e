"""Fork while a client's background loop runs, and play in the child; the exit status says whether it worked.

Arguments: the server's address, and ``new``, ``inherited`` or ``closed`` for the client that the child uses: one of its
own, the parent's, or the parent's after it was closed in the child.
"""

import gc
import os
import sys

from openenv.core.generic_client import GenericEnvClient


def play(client: GenericEnvClient) -> int:
    environment = client.sync()
    environment.reset()
    gc.collect()  # what came from the parent goes, and must not take its sockets along
    totals = [environment.step({"amount": 1}).observation["total"] for _ in range(3)]
    return 0 if totals == [1, 2, 3] else 1


def main(url: str, which: str) -> int:
    client = GenericEnvClient(base_url=url, message_timeout_s=60)
    environment = client.sync()
    environment.reset()
    environment.step({"amount": 4})
    child = os.fork()
    if child == 0:
        status = 2
        try:
            if which == "closed":
                environment.close()
            status = play(GenericEnvClient(base_url=url, message_timeout_s=60) if which == "new" else client)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    continued = environment.step({"amount": 1}).observation["total"]
    environment.close()
    return os.waitstatus_to_exitcode(status) if continued == 5 else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
