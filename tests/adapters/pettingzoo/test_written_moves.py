"""Games against participants: scripts, and models behind an address."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from tests.support.models.judge_server import JudgeServer
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.pettingzoo import Turn
from openenv.adapters.pettingzoo.opponents import find_opponent
from openenv.adapters.pettingzoo.written_moves import written_move
from openenv.adapters.targets import find_adapted
from openenv.agents import Chat, Message, ScriptedUser
from openenv.core.exceptions import EpisodeOrderError, ParticipantFailedError, ServerParticipantError

GAME = "A game of numbers."


def highest(messages: Sequence[Message]) -> str:
    """Choose the highest of the moves that a message lists, after a move that is none."""
    if messages[-1]["content"].startswith("That is no move"):
        return "Then 8, or rather 7."
    return "99"


HIGHEST = ScriptedUser(highest)


def served(opponents: str) -> RunningServer:
    return RunningServer(find_adapted(f"pettingzoo:classic/tictactoe-v3?opponents={opponents}").app())


def turn(space: spaces.Space[Any], legal: Sequence[int] | None = None, observation: Any = 0) -> Turn:
    return Turn("player_2", observation, space, legal)


def test_a_position_and_what_is_read_of_an_answer() -> None:
    chat = Chat(ScriptedUser(["Not 3. I choose 5.", "2", "6", "5"]), "player_2")
    seen = {"board": np.array([[0, 1]]), "action_mask": np.array([0, 0, 1, 0, 0, 1])}
    assert written_move(chat, turn(spaces.Discrete(9), [2, 5], seen), GAME) == 5
    assert chat.messages[0]["content"] == (
        f'{GAME}\n\nYou are player_2.\n\nThe game: {{"board": [[0, 1]]}}\n\nYour move is one of 2, 5. '
        "Write the number alone."
    )
    assert written_move(chat, turn(spaces.Discrete(9), [2]), GAME) == 2
    assert chat.messages[2]["content"].startswith("The game: 0\n\n")
    assert written_move(chat, turn(spaces.Discrete(9), [5]), GAME) == 5
    assert chat.messages[-2]["content"] == (
        "That is no move that can be made: expected one of 5, got 6. Write another one."
    )


def test_moves_of_other_spaces_are_json() -> None:
    chat = Chat(ScriptedUser(["[0.5", "[0.5, 2.0]", "[0.5, -0.5]", ""]), "player_2")
    move = written_move(chat, turn(spaces.Box(-1, 1, (2,), np.float32)), GAME)
    assert move.tolist() == [0.5, -0.5]
    assert move.dtype == np.float32


def test_three_answers_without_a_move_are_a_failure() -> None:
    chat = Chat(ScriptedUser(["I resign.", "9", "4", ""]), "player_2")
    with pytest.raises(ParticipantFailedError, match="none of its 3 answers is a move; expected one of 2, 5, got 4"):
        written_move(chat, turn(spaces.Discrete(9), [2, 5]), GAME)


def test_a_game_by_two_models_counts_each_apart() -> None:
    """One model is the agent, behind the client; the other one is the opponent in the server."""
    opponent = JudgeServer(["8", "7"])
    server = served(f"other@{opponent.server.url}")
    with opponent.server, server, GenericEnvClient(base_url=server.url).sync() as client:
        assert client.reset(seed=1).participants == {}
        results = [client.step({"action": move}) for move in (0, 1, 2)]
        assert client.reset(seed=1).participants == {}
    assert [result.reward for result in results] == [0.0, 0.0, 1.0]
    usage = results[-1].participants["player_2"]
    assert (usage.replies, usage.input_tokens, usage.output_tokens, usage.model) == (2, 20, 10, "other")
    conversation = opponent.requests[1]["messages"]
    assert [message["role"] for message in conversation] == ["system", "user", "assistant", "user"]
    assert "Your move is one of 1, 2, 3, 4, 5, 6, 7, 8." in conversation[1]["content"]


def test_a_script_plays_and_may_correct_a_move() -> None:
    assert find_opponent(f"{__name__}:HIGHEST") is HIGHEST
    with served(f"{__name__}:HIGHEST") as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=1)
        board = np.array(client.step({"action": 0}).observation["observation"]["observation"])
    assert board[:, :, 1].ravel().nonzero()[0].tolist() == [7]


def test_an_opponent_that_fails_ends_the_game_without_a_reward() -> None:
    opponent = JudgeServer(["8", 500, 500, 500, "7"])
    server = served(f"other@{opponent.server.url}")
    with opponent.server, server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=1)
        client.step({"action": 0})
        with pytest.raises(ServerParticipantError, match="The participant 'player_2' failed: Error code: 500"):
            client.step({"action": 1})
        with pytest.raises(EpisodeOrderError, match="Expected a reset first: player_2, which is to move"):
            client.step({"action": 2})
        client.reset(seed=1)
        assert client.step({"action": 1}).participants["player_2"].replies == 1
