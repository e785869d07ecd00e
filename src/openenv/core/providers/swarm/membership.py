"""This machine's membership in a swarm, and the networks of the swarm."""

from typing import Any

from openenv.core.exceptions import ProviderError
from openenv.core.providers.docker.engine import DockerClient, engine_failing
from openenv.core.providers.docker.relay import HOST


def node_id(client: DockerClient, *, may_init: bool) -> str:
    """Return this machine's id in the swarm that it manages.

    Args:
        client: The engine.
        may_init: Whether the machine becomes a swarm of its own where it is in none. That swarm listens on 127.0.0.1,
            so that no other machine can join it.

    Raises:
        ProviderError: The machine manages no swarm.
    """
    swarm = _swarm(client)
    if swarm["LocalNodeState"] == "inactive" and may_init:
        with engine_failing("This machine could not become a swarm. Try `docker swarm init`; Docker says"):
            client.swarm.init(advertise_addr=HOST, listen_addr=HOST)
        swarm = _swarm(client)
    if not swarm["ControlAvailable"]:
        raise ProviderError(
            f"This machine manages no swarm (its state is {swarm['LocalNodeState']}). Make it a swarm of its own with "
            "`docker swarm init`, or use a manager of the swarm."
        )
    return str(swarm["NodeID"])


def make_network(client: DockerClient, name: str) -> None:
    """Make an overlay network that containers outside the swarm can join too, unless the swarm has it.

    Raises:
        ProviderError: The engine refuses.
    """
    with engine_failing(f"The network {name} could not be made"):
        found = client.networks.list(filters={"driver": "overlay", "name": name})
        if name not in (network.name for network in found):
            client.networks.create(name, driver="overlay", attachable=True)


def _swarm(client: DockerClient) -> dict[str, Any]:
    with engine_failing("Docker does not say whether this machine is in a swarm"):
        swarm: dict[str, Any] = client.info()["Swarm"]
    return swarm
