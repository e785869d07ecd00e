import pytest

from wordle_env import WordleAction, WordleEnv, WordleObservation
from wordle_env.server.rewards import wordle_reward


@pytest.mark.parametrize(
    ("feedback", "solved", "greens", "yellows"),
    [
        ("🟩🟨🟨⬛⬛", 0.0, 0.2, 0.4),
        ("⬛⬛⬛⬛⬛", 0.0, 0.0, 0.0),
        ("🟩🟩🟩🟩🟩", 1.0, 1.0, 0.0),
        ("🟩🟩🟩", 1.0, 1.0, 0.0),
    ],
)
def test_a_guess_has_parts_of_which_one_counts(feedback: str, solved: float, greens: float, yellows: float) -> None:
    reward = wordle_reward()
    observation = WordleObservation(word_length=len(feedback), guesses_left=1, feedback=feedback)
    assert reward(WordleAction(word="stare"), observation) == solved
    assert reward.component_scores() == {"solved": solved, "greens": greens, "yellows": yellows}


def test_the_parts_and_their_weights_travel(wordle_url: str) -> None:
    with WordleEnv(base_url=wordle_url).sync() as env:
        assert env.reset(seed=11).reward_components == {}
        result = env.step(WordleAction(word="stare"))
        assert result.reward_components == {"solved": 0.0, "greens": 0.0, "yellows": 0.4}
        assert result.reward_weights == {"solved": 1.0, "greens": 0.0, "yellows": 0.0}
