"""Public import path of ``openenv.core.client.formats``."""

from openenv.core.client.formats import TypedEnvClient, client_for

__all__ = ["TypedEnvClient", "client_for"]
