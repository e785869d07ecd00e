import pytest

from openenv.core.exceptions import ConfigurationError
from openspiel_env.server.settings import Settings


def test_without_variables_it_is_catch_against_a_random_opponent() -> None:
    assert Settings.from_variables({}) == Settings(game_name="catch", agent_player=0, opponent_policy="random")


def test_variables_are_read() -> None:
    variables = {
        "OPENSPIEL_GAME": "tic_tac_toe",
        "OPENSPIEL_AGENT_PLAYER": "1",
        "OPENSPIEL_OPPONENT_POLICY": "self",
        "OPENSPIEL_OTHER": "ignored",
    }
    assert Settings.from_variables(variables) == Settings(
        game_name="tic_tac_toe", agent_player=1, opponent_policy="self"
    )


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("OPENSPIEL_GAME", "tictactoe", "did you mean tic_tac_toe"),
        ("OPENSPIEL_GAME", "mfg_garnet", "no game that can be played"),
        ("OPENSPIEL_AGENT_PLAYER", "-1", "expected greater than or equal to 0"),
        ("OPENSPIEL_AGENT_PLAYER", "first", "expected a valid integer"),
        ("OPENSPIEL_OPPONENT_POLICY", "clever", "expected 'random', 'first', 'last', 'middle' or 'self'"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        Settings.from_variables({variable: value})
    assert variable in str(raised.value)
