"""The modules of the package, by name."""

import pkgutil

import openenv

# Not to be imported: the first runs the command; the second is what uvicorn loads for ``openenv serve --reload``.
PROGRAMS = {"openenv.cli.__main__", "openenv.cli.served"}

MODULES = sorted(
    {"openenv", *(module.name for module in pkgutil.walk_packages(openenv.__path__, "openenv."))} - PROGRAMS
)
