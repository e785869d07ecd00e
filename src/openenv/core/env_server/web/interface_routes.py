"""Routes of the public package's page: ``/web/metadata``, ``/web/reset``, ``/web/step``, ``/web/state``, ``/ws/ui``."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.params import Depends
from starlette.websockets import WebSocket, WebSocketDisconnect

from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.web.interface import WebInterfaceManager
from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError
from openenv.core.wire.types import EnvironmentMetadata

_TRY_AGAIN_LATER = 1013


class WebInterfaceRoutes:
    """Routes that play the session of a ``WebInterfaceManager``, and follow it.

    Args:
        manager: Plays the session.
        about: Description of the environment.
        env_name: Name of the environment in the server's configuration.
    """

    def __init__(self, manager: WebInterfaceManager, about: About, env_name: str) -> None:
        self._manager = manager
        self._about = about
        self._env_name = env_name

    def router(self, dependencies: list[Depends], responses: dict[int | str, dict[str, Any]]) -> APIRouter:
        """Build the routes.

        Args:
            dependencies: FastAPI dependencies of each route but the socket.
            responses: Errors that each may answer with, for the OpenAPI document.
        """
        router = APIRouter(tags=["Page"], responses=responses)
        add = partial(router.add_api_route, dependencies=dependencies)
        add("/web/metadata", self.metadata, response_model=EnvironmentMetadata)
        add("/web/reset", self.reset, methods=["POST"])
        add("/web/step", self.step, methods=["POST"])
        add("/web/state", self.state)
        router.add_api_websocket_route("/ws/ui", self.follow)
        return router

    async def metadata(self) -> dict[str, Any]:
        """Return the environment's metadata, under the server's name for it."""
        return {**await self._about.metadata(), "name": self._env_name}

    async def reset(self, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start an episode in the session that all callers share, with the arguments of the environment's reset."""
        return await self._manager.reset_environment(body)

    async def step(self, body: dict[str, Any]) -> dict[str, Any]:
        """Perform an action in the session that all callers share: ``{"action": {...}}`` or ``{"message": "..."}``."""
        action = {"message": body["message"]} if "message" in body else body.get("action", {})
        if not isinstance(action, dict):
            raise InvalidRequestError(f"Expected an object as the action, got {type(action).__name__}.")
        return await self._manager.step_environment(action)

    async def state(self) -> dict[str, Any]:
        """Return the state of the session that all callers share."""
        try:
            return await self._manager.read_state()
        except EnvironmentFailedError as error:
            if isinstance(error.__cause__, RuntimeError):  # as of an environment that wants a reset first
                raise HTTPException(409, error.message) from error
            raise

    async def follow(self, socket: WebSocket) -> None:
        """Send the episode so far, and again after each reset and step; a slow reader gets several of them as one."""
        await socket.accept()
        if self._manager.is_watched_by_most:
            with suppress(WebSocketDisconnect, RuntimeError):  # as of a closed socket
                await socket.send_json({"ended": "As many follow this session as may; try again later."})
                await socket.close(_TRY_AGAIN_LATER)
            return
        with self._manager.watch() as changed:
            sending = asyncio.create_task(self._send_updates(socket, changed))
            try:
                while (await socket.receive())["type"] != "websocket.disconnect":
                    pass
            finally:
                sending.cancel()

    async def _send_updates(self, socket: WebSocket, changed: asyncio.Event) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # as of a closed socket
            while True:
                changed.clear()
                await socket.send_text(self._manager.state_update())
                await changed.wait()
