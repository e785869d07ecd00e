"""Public import path of ``create_web_interface_app``; it lives in ``app``."""

from openenv.core.env_server.app import create_web_interface_app

__all__ = ["create_web_interface_app"]
