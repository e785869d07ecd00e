import pytest

from openenv.core.exceptions import ConfigurationError
from textarena_env.server.settings import Settings


def test_without_variables_it_is_wordle_with_new_messages() -> None:
    assert Settings.from_variables({}) == Settings("Wordle-v0", 1, None, "self", "new", {})


def test_variables_are_read() -> None:
    variables = {
        "TEXTARENA_ENV_ID": "TicTacToe-v0",
        "TEXTARENA_NUM_PLAYERS": "2",
        "TEXTARENA_MAX_TURNS": "30",
        "TEXTARENA_OPPONENTS": "random",
        "TEXTARENA_HISTORY": "cumulative",
        "TEXTARENA_DOWNLOAD_NLTK": "1",
        "TEXTARENA_KW_word_length": "7",
        "TEXTARENA_KW_hardcore": "true",
        "TEXTARENA_KW_difficulty": "hard",
    }
    options = {"word_length": 7, "hardcore": True, "difficulty": "hard"}
    assert Settings.from_variables(variables) == Settings("TicTacToe-v0", 2, 30, "random", "cumulative", options)


def test_an_empty_variable_is_none() -> None:
    variables = dict.fromkeys(("TEXTARENA_ENV_ID", "TEXTARENA_NUM_PLAYERS", "TEXTARENA_MAX_TURNS"), "")
    assert Settings.from_variables(variables) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("TEXTARENA_ENV_ID", "Wordl-v0", "Did you mean Wordle-v0"),
        ("TEXTARENA_NUM_PLAYERS", "two", "expected a whole number"),
        ("TEXTARENA_NUM_PLAYERS", "0", "expected 1 to 15"),
        ("TEXTARENA_NUM_PLAYERS", "16", "expected 1 to 15"),
        ("TEXTARENA_MAX_TURNS", "-1", "expected a whole number"),
        ("TEXTARENA_MAX_TURNS", "0", "expected 1 or more"),
        ("TEXTARENA_OPPONENTS", "clever", "expected one of self, random, scripted"),
        ("TEXTARENA_HISTORY", "old", "expected one of new, cumulative"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        Settings.from_variables({variable: value})
    assert variable in str(raised.value)
