"""``python -m tests.support.install``: install packages with uv, by pip's settings, or else with pip.

Arguments are those that ``pip install`` and ``uv pip install`` have in common. uv needs a quarter of pip's CPU time for
the same packages, but reads none of pip's settings (``pip config list``): they are translated. Where one of them has no
counterpart, where uv can't be had, and where it fails, pip installs. Nothing but the standard library is imported here,
since there is nothing else yet.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

_UV = "uv>=0.8"
_OPTIONS = {
    "constraint": "--constraint",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "index-url": "--index-url",
    "trusted-host": "--allow-insecure-host",
}
_VARIABLES = {"cert": "SSL_CERT_FILE", "default-timeout": "UV_HTTP_TIMEOUT", "timeout": "UV_HTTP_TIMEOUT"}
_WITHOUT_EFFECT = {
    "cache-dir",
    "config-file",
    "disable-pip-version-check",
    "no-color",
    "no-input",
    "no-python-version-warning",
    "no-warn-script-location",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "retries",
    "root-user-action",
    "verbose",
}
"""Settings that change what pip says and how it works, not what it installs."""


def pip_settings() -> dict[str, str]:
    """Return pip's settings for installing, by their names; variables win over files, as with pip itself."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    # A pip that is set to be quiet or verbose lists nothing, or more.
    environment = {**os.environ, "PIP_QUIET": "0", "PIP_VERBOSE": "0"}
    listed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    pairs = [line.partition("=")[::2] for line in listed.stdout.splitlines()]
    sections = ("global", "install", ":env:")
    named = [(*key.rpartition(".")[::2], ast.literal_eval(text)) for key, text in pairs]
    ranked = sorted((each for each in named if each[0] in sections), key=lambda each: sections.index(each[0]))
    return {name: value for _, name, value in ranked}


def untranslatable(settings: Mapping[str, str]) -> list[str]:
    """Return the names of pip's settings that uv has no counterpart for."""
    return sorted(set(settings) - {*_OPTIONS, *_VARIABLES, *_WITHOUT_EFFECT})


def uv_options(settings: Mapping[str, str]) -> list[str]:
    """Return the options by which uv finds the same packages as pip does with these settings.

    Example:
        >>> uv_options({"find-links": "/wheels", "quiet": "1"})
        ['--index-strategy', 'unsafe-best-match', '--find-links', '/wheels']
    """
    # pip takes the best of all indexes, uv by itself what the first of them has.
    options = ["--index-strategy", "unsafe-best-match"]
    for name, option in _OPTIONS.items():
        options += [part for value in settings.get(name, "").split() for part in (option, value)]
    return options


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that stand for the settings for which uv has no option."""
    return {variable: settings[name] for name, variable in _VARIABLES.items() if name in settings}


def main(arguments: Sequence[str]) -> int:
    """Install, and return how that ended.

    Args:
        arguments: What is to be installed, and options that uv and pip have in common.
    """
    settings = pip_settings()
    if problem := _install_with_uv(arguments, settings):
        sys.stderr.write(f"{problem}; pip installs instead, which takes some minutes longer.\n")
        return _run_pip(*arguments)
    return 0


def _install_with_uv(arguments: Sequence[str], settings: Mapping[str, str]) -> str:
    """Install with uv; return why that was not possible, or nothing."""
    if names := untranslatable(settings):
        return f"uv has no counterpart for pip's setting {names[0]}"
    if find_spec("uv") is None and _run_pip(_UV) != 0:
        return "uv can't be installed"
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    # uv leaves it to the first import to compile a module, and then each import would.
    compiled = ["--compile-bytecode"] if sys.dont_write_bytecode else []
    environment = {**os.environ, **uv_variables(settings)}
    ended = subprocess.run([*command, *compiled, *uv_options(settings), *arguments], env=environment)
    return f"uv ended with {ended.returncode}" if ended.returncode else ""


def _run_pip(*arguments: str) -> int:
    quiet = ["-qq", "--disable-pip-version-check"]
    # What setuptools warns of while it builds is not for whom this installs; errors still show.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, "-m", "pip", "install", *quiet, *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
