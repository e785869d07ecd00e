"""Public import path of ``HFSandboxProvider``; it lives in ``openenv.core.providers.cloud.hugging_face``."""

from openenv.core.providers.cloud.hugging_face import HFSandboxProvider

__all__ = ["HFSandboxProvider"]
