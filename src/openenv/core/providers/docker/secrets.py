"""Secrets for a container that neither the engine's records nor its logs show."""

import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from openenv.core.exceptions import ConfigurationError

INSIDE = "/run/openenv-secrets"
"""Where the container sees the file."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class SecretFile:
    """A file with secrets, which is mounted into a container and read there before its server starts.

    To the server they are environment variables like others. On this machine the file is removed once the container
    has it; ``docker inspect`` and ``docker run``'s arguments never hold a secret. Whoever runs code inside the
    container can read them, as they can its environment.

    Args:
        secrets: Values by the names of their variables.

    Raises:
        ConfigurationError: A name can't be a variable's.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        wrong = [name for name in secrets if not _NAME.fullmatch(name)]
        if wrong:
            raise ConfigurationError(f"A secret's name is a variable's, such as API_KEY, but got {wrong[0]!r}.")
        # The folder is this user's only; the file is for whichever user the server runs as.
        self._folder = Path(tempfile.mkdtemp(prefix="openenv-secrets-"))
        self._file = self._folder / "secrets"
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items()]
        self._file.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
        self._file.chmod(0o444)

    @property
    def mount(self) -> str:
        """The mount, as the engine takes it."""
        return f"{self._file}:{INSIDE}:ro"

    @staticmethod
    def entry_point(command: Sequence[str]) -> list[str]:
        """Return what the container has to run: a shell that reads the file and then becomes the image's command."""
        return ["/bin/sh", "-c", f'. {INSIDE} && exec "$@"', "sh", *command]

    def remove(self) -> None:
        """Remove the file from this machine; a container that runs keeps what it has mounted."""
        shutil.rmtree(self._folder, ignore_errors=True)
