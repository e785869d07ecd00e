"""Public import path of small helpers; they live with what uses them."""

from openenv.core.addresses import convert_to_ws_url
from openenv.core.client.blocking import run_async_safely
from openenv.core.providers.spaces import hf_space_subdomain

__all__ = ["convert_to_ws_url", "hf_space_subdomain", "run_async_safely"]
