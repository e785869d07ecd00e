"""Games against models behind an address, and against scripts."""

from collections.abc import Sequence

import pytest
from tests.support.models.judge_server import JudgeServer

from openenv.agents import Message, ScriptedUser
from openenv.core.exceptions import ParticipantFailedError, ResetNeededError
from textarena_env import TextArenaAction, TextArenaObservation
from textarena_env.server.settings import Settings
from textarena_env.server.textarena_environment import TextArenaEnvironment


def betray(_messages: Sequence[Message]) -> str:
    """Betray, whatever was said."""
    return "[defect]"


BETRAYER = ScriptedUser(betray)


def game(participant: str, env_id: str, player_id: int = 0) -> tuple[TextArenaEnvironment, TextArenaObservation]:
    environment = TextArenaEnvironment(Settings(opponents="participant", participant=participant))
    return environment, environment.reset(seed=1, env_id=env_id, player_id=player_id)


def test_a_model_plays_against_the_client() -> None:
    judge = JudgeServer(["[0]", "[1]"])
    with judge.server:
        environment, first = game(f"other@{judge.server.url}", "TicTacToe-v0")
        assert first.metadata["participants"]["player_1"]["replies"] == 0
        ends = [environment.step(TextArenaAction(message=cell)) for cell in ("[4]", "[2]", "[6]")]
    assert ends[-1].reward == 1.0
    usage = {"replies": 2, "input_tokens": 20, "output_tokens": 10, "cost_usd": None, "model": "other"}
    assert ends[-1].metadata["participants"] == {"player_1": usage}
    first_prompt, second = (request["messages"] for request in judge.requests)
    assert "Tic Tac Toe" in first_prompt[1]["content"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[2]["content"] == "[0]"


def test_a_script_plays_against_the_client() -> None:
    environment, observation = game(f"{__name__}:BETRAYER", "IteratedPrisonersDilemma-v0", player_id=1)
    while not observation.done:
        observation = environment.step(TextArenaAction(message="[cooperate]"))
    assert observation.reward == -1.0
    assert observation.metadata["participants"]["player_0"]["replies"] > 2


def test_a_model_that_fails_ends_the_game_without_a_reward() -> None:
    judge = JudgeServer(["[0]", 500, 500, 500, 500, 500, 500, "[3]"])
    with judge.server:
        environment, _ = game(f"other@{judge.server.url}", "TicTacToe-v0")
        environment.step(TextArenaAction(message="[4]"))
        with pytest.raises(ParticipantFailedError, match="The participant 'player_1' failed: Error code: 500"):
            environment.step(TextArenaAction(message="[2]"))
        with pytest.raises(ResetNeededError):
            environment.step(TextArenaAction(message="[6]"))
        with pytest.raises(ParticipantFailedError, match="'player_0' failed"):
            environment.reset(seed=1, env_id="TicTacToe-v0", player_id=1)
        with pytest.raises(ResetNeededError):
            environment.step(TextArenaAction(message="[6]"))
        again = environment.reset(seed=1, env_id="TicTacToe-v0", player_id=1)
    assert again.metadata["participants"]["player_0"]["replies"] == 1
