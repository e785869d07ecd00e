"""A server of a project on disk or in a git repository, in a Python environment that uv builds."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.core.exceptions import ProviderError
from openenv.core.providers.local_process import HOST, LocalProcessProvider
from openenv.core.providers.venv.git import clone, is_git_url
from openenv.core.providers.venv.installer import find_uv


class UVProvider(LocalProcessProvider):
    """Runs a project's server in a child process, with the project's dependencies in an environment of its own.

    The environment is built by uv on the first start and kept, see ``venv.environment``; the child is a
    ``LocalProcessProvider``'s in all else. What a repository holds is run as it is: name those only that you trust.

    Args:
        project_path: The environment's folder, or its repository as ``git+https://...``, where ``@REVISION`` and
            ``#subdirectory=PATH`` may follow; that is fetched on each start and removed on ``stop``.
        app: The application, as ``module:attribute`` from the folder; what its ``openenv.yaml`` says if ``None``.
        host: Address to listen on. On another one than this machine's own, clients need ``token``.
        reload: Whether to start the server again when a file of the project changes.
        env_vars: Environment variables to set for the server, on top of this process's own.
        context_timeout_s: Seconds that ``wait_for_ready`` waits by default.

    Raises:
        ProviderError: uv is not installed. It is a ``RuntimeError`` too.

    Example::

        with UVProvider(project_path="./my_env") as provider, MyEnv(provider.base_url).sync() as client:
            client.reset()
    """

    def __init__(
        self,
        *,
        project_path: str | Path,
        app: str | None = None,
        host: str = HOST,
        reload: bool = False,
        env_vars: Mapping[str, str] | None = None,
        context_timeout_s: float = 60.0,
    ) -> None:
        if find_uv() is None:
            raise ProviderError("UVProvider needs uv, which is not installed: pip install uv")
        super().__init__(project_path, env_vars=env_vars, venv=True)
        self.project_path = str(project_path)
        self.app = app
        self.host = self._host = host
        self.reload = reload
        self._hands_on_listener = not reload  # with --reload the server opens its own
        self.context_timeout_s = context_timeout_s
        self._clone: Path | None = None

    def start(
        self, port: int | None = None, env_vars: dict[str, str] | None = None, workers: int = 1, **kwargs: Any
    ) -> str:
        """Start the server and return before it is ready; this builds its environment where there is none yet.

        Args:
            port: Port to serve on; a free one is taken if ``None``.
            env_vars: Environment variables to set for the server, on top of the constructor's.
            workers: Processes that serve the port together.
            **kwargs: There are none; this signature is every provider's.

        Returns:
            The server's address, as ``http://127.0.0.1:port``.

        Raises:
            ConfigurationError: The project does not say what it needs.
            ProviderError: The project could not be fetched, its environment not be built, the port is taken, or this
                provider is running a server already.
        """
        self._refuse_options(kwargs)
        if self.pid is None:
            self._fetch()
        options = [] if self.app is None else ["--app", self.app]
        options += ["--reload"] if self.reload else ["--workers", str(workers)]
        try:
            return self._start(port, env_vars or {}, options)
        except BaseException:
            if self.pid is None:
                self._remove_clone()
            raise

    def stop(self) -> None:
        """End the server, and remove what was fetched. May be called twice."""
        super().stop()
        self._remove_clone()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            timeout_s: Seconds to wait at most; ``context_timeout_s`` if ``None``.

        Raises:
            ProviderError: The server was not started, or ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        super().wait_for_ready(self.context_timeout_s if timeout_s is None else timeout_s)

    def _fetch(self) -> None:
        if not is_git_url(self.project_path):
            return
        self._clone = Path(tempfile.mkdtemp(prefix="openenv-clone-"))
        self._stop_at_exit()
        try:
            self.environment = str(clone(self.project_path, self._clone))
        except BaseException:
            self._remove_clone()
            raise

    def _remove_clone(self) -> None:
        if self._clone is not None:
            shutil.rmtree(self._clone, ignore_errors=True)
            self._clone = None
            self._stopped()
