"""Programs and providers that tests of cloud services have in common."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from openenv.core.providers.cloud.provider import CloudProvider

ProviderT = TypeVar("ProviderT", bound=CloudProvider)

IDLE = "exec sleep 600"
"""A command in place of a server, which serves nothing."""

_LEAVING = """
from openenv.core.containers.runtime.{module} import {name}
from openenv.core.exceptions import ProviderError

try:
    {name}(cmd={cmd!r}, **{settings!r}).start_container()
except ProviderError as error:
    print(error)
"""
_WITHOUT = """
import sys

sys.modules[{missing!r}] = None
from openenv.core.containers.runtime.{module} import {name}

try:
    {name}(**{settings!r})
except ImportError as error:
    print(error)
"""


@contextmanager
def idle_providers(kind: type[ProviderT], **defaults: Any) -> Iterator[Callable[..., ProviderT]]:
    """Make providers whose server is a process that serves nothing; they are closed in the end."""
    with ExitStack() as providers:
        yield partial(_made, kind, providers, {"cmd": IDLE, **defaults})


def _made(kind: type[ProviderT], providers: ExitStack, defaults: dict[str, Any], **settings: Any) -> ProviderT:
    provider = kind(**{**defaults, **settings})
    providers.enter_context(provider)
    return provider


def start_and_end(module: str, name: str, environment: dict[str, str] | None = None, **settings: Any) -> str:
    """Have a program start a server in a sandbox and end without a word; return the error that it printed."""
    return _run(_LEAVING.format(module=module, name=name, cmd=IDLE, settings=settings), environment)


def make_without(missing: str, module: str, name: str, **settings: Any) -> str:
    """Have a program make a provider without a package; return the error that it printed."""
    return _run(_WITHOUT.format(missing=missing, module=module, name=name, settings=settings), None)


def interrupt(*_: object, **__: object) -> None:
    """Stand for a call during which Ctrl-C is pressed."""
    raise KeyboardInterrupt


def _run(program: str, environment: dict[str, str] | None) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
