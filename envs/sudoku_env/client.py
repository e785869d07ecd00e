"""The client of the Sudoku environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import SudokuAction, SudokuObservation, SudokuState


class SudokuEnv(TypedEnvClient[SudokuAction, SudokuObservation, SudokuState]):
    """Play Sudoku on a server.

    Example::

        async with SudokuEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7, difficulty="easy")
            result = await env.step(SudokuAction(row=1, col=3, number=5))
            print(result.observation.text, result.observation.valid)
    """
