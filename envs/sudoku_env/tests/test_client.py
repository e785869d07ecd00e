import pytest

from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from sudoku_env import SudokuAction, SudokuEnv


class SudokuTool:
    """An environment for TRL's trainer, with what its reward functions read."""

    def __init__(self, url: str) -> None:
        self._client = SudokuEnv(base_url=url).sync()
        self.valid: list[float] = []
        self.repetitions: list[float] = []
        self.progress = self.correct = 0.0

    def reset(self, **row: object) -> str:
        return self._client.reset(seed=7, difficulty="medium").observation.text

    def place(self, row: int, col: int, number: int) -> str:
        result = self._client.step(SudokuAction(row=row, col=col, number=number))
        signals = result.observation.metadata["reward_signals"]
        self.valid.append(signals["sudoku.validity"])
        self.repetitions.append(signals["sudoku.repetitions"])
        self.progress, self.correct = signals["sudoku.progress"], float(result.reward or 0.0)
        return result.observation.text

    def close(self) -> None:
        self._client.close()


def test_a_trainer_finds_validity_progress_repetition_and_correctness(sudoku_url: str) -> None:
    tool = SudokuTool(sudoku_url)
    assert "Fill the empty cells" in tool.reset()
    assert "Right: 5 stands" in tool.place(1, 3, 5)
    tool.place(1, 2, 9)
    assert "Wrong so far: 9 in R1C2." in tool.place(1, 2, 9)
    tool.close()
    assert (tool.valid, tool.repetitions) == ([1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    assert (tool.progress, tool.correct) == (1 / 45, 0.0)


async def test_a_fork_goes_on_from_the_same_position(sudoku_url: str) -> None:
    async with SudokuEnv(base_url=sudoku_url) as env:
        await env.reset(seed=7, difficulty="medium")
        await env.step(SudokuAction(row=1, col=3, number=5))
        (branch,) = await env.fork(1)
        async with branch:
            moved = [await each.step(SudokuAction(row=1, col=2, number=7)) for each in (env, branch)]
            await branch.step(SudokuAction(row=1, col=5, number=3))
            states = [await each.state() for each in (env, branch)]
    assert moved[0].observation == moved[1].observation
    assert [state.step_count for state in states] == [2, 3]


async def test_what_is_refused_uses_no_move(sudoku_url: str) -> None:
    async with GenericEnvClient(base_url=sudoku_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"row": 1, "col": 1, "number": 1})
        await env.reset(seed=7, difficulty="medium")
        with pytest.raises(RequestRejectedError, match="already holds 2") as refused:
            await env.step({"row": 1, "col": 1, "number": 1})
        assert refused.value.code == "VALIDATION_ERROR"
        for wrong in ({"row": 10, "col": 1, "number": 1}, {"row": 1, "col": 1}, {"row": 1, "col": 3, "number": 0}):
            with pytest.raises(RequestRejectedError):
                await env.step(wrong)
        with pytest.raises(RequestRejectedError, match="difficulty: Input should be 'very-easy'"):
            await env.reset(difficulty="impossible")
        assert (await env.step({"row": 1, "col": 3, "number": 5})).observation["moves_left"] == 89
