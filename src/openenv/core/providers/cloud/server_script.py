"""The shell script that starts an environment's server in a sandbox.

Sandboxes do not run what the image would run: they start the image's files under a program of the service.
"""

import re
import shlex
from collections.abc import Iterable, Mapping

from openenv.core.exceptions import ConfigurationError

SERVER_PORT = 8000
"""Where a server listens in its sandbox."""

# The port is fixed: an image's own PORT is that of another proxy.
# The public package's images have the environment's folder in /app/env, ours the command that its package installs.
_FIND_SERVER = """\
manifest=/app/env/openenv.yaml
if [ ! -f "$manifest" ]; then
  command -v server >/dev/null 2>&1 && exec server --host {host} --port {port}
  manifest=$(find /app -maxdepth 4 -name openenv.yaml 2>/dev/null | head -n 1)
fi
if [ -z "$manifest" ]; then
  echo "The image has no openenv.yaml below /app and no command 'server'; pass cmd= to the provider." >&2
  exit 64
fi
app=$(sed -n 's/^app:[[:space:]]*//p' "$manifest" | sed "s/[[:space:]]*#.*//; s/[\\"' ]//g" | head -n 1)
if [ -z "$app" ]; then
  echo "$manifest has no 'app'; add it, or pass cmd= to the provider." >&2
  exit 64
fi
cd "$(dirname "$manifest")" || exit 64
PATH="$PWD/.venv/bin:$PATH"
python=$(command -v python || command -v python3)
exec "$python" -m uvicorn "$app" --host {host} --port {port}
"""


def check_names(variables: Iterable[str]) -> None:
    """Raise ``ConfigurationError`` if a shell can't export a variable of one of these names."""
    for name in variables:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
            raise ConfigurationError(f"Expected the name of an environment variable among the secrets, got {name!r}.")


def command_in(folder: str | None, cmd: str | None) -> str | None:
    """Return the command that starts the server in a folder.

    Args:
        folder: The folder; ``None`` for the one in which the sandbox's commands run.
        cmd: The shell command; ``None`` for none.

    Raises:
        ConfigurationError: There is a folder, but no command.
    """
    if folder and not cmd:
        raise ConfigurationError("Expected cmd= beside working_directory=, which is where it runs; got none.")
    return f"cd {shlex.quote(folder)} && {cmd}" if folder else cmd


def server_script(cmd: str | None, secrets: Mapping[str, str], host: str) -> str:
    """Write the script.

    Args:
        cmd: The shell command that starts the server; where ``None``, the application that the image's
            ``openenv.yaml`` names is started, or its command ``server``.
        secrets: Variables for the server alone, which no description of the sandbox shows.
        host: The address to listen on.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
    return exports + (cmd or _FIND_SERVER.format(host=host, port=SERVER_PORT))
