"""Public import path of the names that build a server; they live in ``app``."""

from openenv.core.env_server.app import HTTPEnvServer, create_app, create_fastapi_app

__all__ = ["HTTPEnvServer", "create_app", "create_fastapi_app"]
