"""Public import path of ``openenv.core.client.typed``."""

from openenv.core.client.typed import TypedEnvClient, client_for

__all__ = ["TypedEnvClient", "client_for"]
