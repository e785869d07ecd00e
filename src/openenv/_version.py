"""Version of this OpenEnv, and its folder."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE_FOLDER = Path(__file__).parent
"""The folder of the package ``openenv``."""

try:
    __version__ = version("openenv-core")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0.0.0"
