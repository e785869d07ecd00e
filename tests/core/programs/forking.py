"""Fork while a client's background loop runs, and play in the child; the exit status says whether it worked.

Arguments: the server's address, and ``new`` or ``inherited`` for the client that the child uses.
"""

import os
import sys

from openenv.core.generic_client import GenericEnvClient


def play(client: GenericEnvClient) -> int:
    environment = client.sync()
    environment.reset()
    totals = [environment.step({"amount": 1}).observation["total"] for _ in range(3)]
    return 0 if totals == [1, 2, 3] else 1


def main(url: str, which: str) -> int:
    client = GenericEnvClient(base_url=url, message_timeout_s=5)
    environment = client.sync()
    environment.reset()
    environment.step({"amount": 4})
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = play(client if which == "inherited" else GenericEnvClient(base_url=url, message_timeout_s=5))
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    continued = environment.step({"amount": 1}).observation["total"]
    environment.close()
    return os.waitstatus_to_exitcode(status) if continued == 5 else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
