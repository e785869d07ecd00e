"""Public import path of ``openenv.core.client.vector``."""

from openenv.core.client.vector import SlotResult, SyncVectorEnv, VectorEnv

__all__ = ["SlotResult", "SyncVectorEnv", "VectorEnv"]
