"""Trial of a game in a separate process, which may crash, hang or need too much memory without harm."""

import os
import subprocess
import sys

_WALL_S = 30
# The allocator fills fresh memory with this byte, so that a game that reads what it never wrote fails here.
_FILL = {"MALLOC_PERTURB_": "165"}


def try_game(name: str, params_json: str) -> str | None:
    """Play a game with random moves in a separate process, and return the fault; ``None`` if all went well."""
    # Its modules must be found where this process found them, whether or not they are installed.
    variables = {**os.environ, **_FILL, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", f"{__package__}.trial_game", name, params_json]
    try:
        process = subprocess.run(  # noqa: S603  # our own module, and data that it reads as JSON
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a trial game did not end within {_WALL_S} s."
    if process.returncode == 0:
        return None
    if process.returncode < 0:
        return "OpenSpiel crashed or took too long with them; try values closer to the defaults."
    report = process.stdout.decode(errors="replace").strip()
    return report.splitlines()[-1][:300] if report else "OpenSpiel refused them."
