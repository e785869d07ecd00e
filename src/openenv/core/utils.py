"""Public import path of small helpers; they live with what uses them."""

from openenv.core.background_loop import run_async_safely
from openenv.core.env_client import convert_to_ws_url

__all__ = ["convert_to_ws_url", "run_async_safely"]
