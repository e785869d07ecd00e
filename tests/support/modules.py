"""The modules of the package, by name."""

from tests.support.import_graph import import_graph

PROGRAMS = {"openenv.cli.__main__", "openenv.cli.served"}
"""Not to be imported: the first runs the command; the second is what uvicorn loads for ``openenv serve --reload``."""

MODULES = sorted({module.name for module in import_graph() if module.name.split(".")[0] == "openenv"} - PROGRAMS)
