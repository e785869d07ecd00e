"""Public import path of ``DaytonaProvider``; it lives in ``openenv.core.providers.cloud.daytona``."""

from openenv.core.providers.cloud.daytona import DaytonaProvider

__all__ = ["DaytonaProvider"]
