import pytest

from openenv.core.exceptions import ConfigurationError
from textarena_env.server.settings import Settings


def test_without_variables_it_is_wordle_with_new_messages() -> None:
    assert Settings.from_variables({}) == Settings(
        env_id="Wordle-v0", num_players=1, max_turns=None, opponents="self", history="new", options={}
    )


def test_variables_are_read() -> None:
    variables = {
        "TEXTARENA_ENV_ID": "TicTacToe-v0",
        "TEXTARENA_NUM_PLAYERS": "2",
        "TEXTARENA_MAX_TURNS": "30",
        "TEXTARENA_OPPONENTS": "random",
        "TEXTARENA_PARTICIPANT": "Qwen/Qwen3-8B@http://localhost:8000",
        "TEXTARENA_HISTORY": "cumulative",
        "TEXTARENA_DOWNLOAD_NLTK": "1",
        "TEXTARENA_KW_word_length": "7",
        "TEXTARENA_KW_hardcore": "true",
        "TEXTARENA_KW_difficulty": "hard",
    }
    options = {"word_length": 7, "hardcore": True, "difficulty": "hard"}
    assert Settings.from_variables(variables) == Settings(
        env_id="TicTacToe-v0",
        num_players=2,
        max_turns=30,
        opponents="random",
        participant="Qwen/Qwen3-8B@http://localhost:8000",
        history="cumulative",
        options=options,
    )


def test_an_empty_variable_is_none() -> None:
    variables = dict.fromkeys(("TEXTARENA_ENV_ID", "TEXTARENA_NUM_PLAYERS", "TEXTARENA_MAX_TURNS"), "")
    assert Settings.from_variables(variables) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("TEXTARENA_ENV_ID", "Wordl-v0", "Did you mean Wordle-v0"),
        ("TEXTARENA_NUM_PLAYERS", "two", "expected a valid integer"),
        ("TEXTARENA_PARTICIPANT", "nobody", "Expected NAME@URL of a model, or module:name, got 'nobody'"),
        ("TEXTARENA_NUM_PLAYERS", "0", "expected greater than or equal to 1"),
        ("TEXTARENA_NUM_PLAYERS", "16", "expected less than or equal to 15"),
        ("TEXTARENA_MAX_TURNS", "-1", "expected greater than or equal to 1"),
        ("TEXTARENA_MAX_TURNS", "0", "expected greater than or equal to 1"),
        ("TEXTARENA_OPPONENTS", "clever", "expected 'self', 'random', 'scripted' or 'participant'"),
        ("TEXTARENA_HISTORY", "old", "expected 'new' or 'cumulative'"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        Settings.from_variables({variable: value})
    assert variable in str(raised.value)
