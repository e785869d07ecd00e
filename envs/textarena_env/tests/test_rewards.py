import pytest
from hypothesis import given
from hypothesis import strategies as st

from textarena_env import TextArenaAction, TextArenaMessage, TextArenaObservation, build_reward_providers
from textarena_env.rewards import extract_feedback_counts, extract_guess, extract_wordle_feedback


def observed(*contents: str, category: str = "GAME_MESSAGE", reward: float = 0.0) -> TextArenaObservation:
    messages = [TextArenaMessage(sender_id=-1, content=content, category=category) for content in contents]
    return TextArenaObservation(prompt="", messages=messages, reward=reward)


def answer(guess: str, marks: str) -> str:
    return (
        f"You submitted [{guess}].\nFeedback:\n{' '.join(guess.upper())}\n{' '.join(marks)}\nYou have 3 guesses left."
    )


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("[crane]", "[crane]"),
        ("<think>[no] [toolong]</think> [CRANE] or [crate]", "[crane]"),
        ("Crane!", "[crane]"),
        ("c.r.a n e", "[crane]"),
        ("two words", "[twowo]"),
        ("", "[dunno]"),
        ("[abc]", "[dunno]"),
        ("1234567", "[dunno]"),
    ],
)
def test_a_guess_is_found(text: str, guess: str) -> None:
    assert extract_guess(text) == guess


@given(st.text())
def test_a_guess_always_has_five_letters_in_brackets(text: str) -> None:
    guess = extract_guess(text)
    assert (len(guess), guess[0], guess[-1], guess[1:-1].isalpha()) == (7, "[", "]", True)


def test_the_feedback_is_that_of_the_last_message_with_one() -> None:
    observation = observed(answer("crane", "XXXXX"), answer("shout", "GXXXX"), "You attempted an invalid move.")
    assert extract_wordle_feedback(observation).startswith("S H O U T\nG X X X X")
    assert extract_wordle_feedback(observed("Feedback for each letter is given")) == ""
    assert extract_wordle_feedback(observed()) == ""


@pytest.mark.parametrize(
    ("feedback", "counts"),
    [
        ("S H O U T\nG X Y X Y", (1, 2)),
        ("S H O U T\nG X Y X Y\n\nYou have 3 guesses left.", (1, 2)),
        ("A\nG G G G G\nFeedback:\nB\nX X X X Y", (0, 1)),
        ("G G G G G", (0, 0)),
        ("", (0, 0)),
        ("S H O U T\nno marks", (0, 0)),
    ],
)
def test_marks_are_counted_in_the_last_line_of_them(feedback: str, counts: tuple[int, int]) -> None:
    assert extract_feedback_counts(feedback) == counts


def test_each_guess_is_scored() -> None:
    (provider,) = build_reward_providers("Wordle-v0")
    guess = TextArenaAction(message="I say [shout]")
    expected = {"wordle.greens": 0.2, "wordle.yellows": 0.4, "wordle.repetitions": 1.0, "wordle.correct": 0.0}
    assert provider.compute(action=guess, observation=observed("[shout]", answer("shout", "GXYXY"))) == expected
    again = provider.compute(action=guess, observation=observed("You attempted an invalid move."))
    assert again == {"wordle.greens": 0.0, "wordle.yellows": 0.0, "wordle.repetitions": 0.0, "wordle.correct": 0.0}
    assert provider.compute(action=guess, observation=observed())["wordle.repetitions"] == -1.0
    provider.reset()
    assert provider.compute(action=guess, observation=observed())["wordle.repetitions"] == 1.0


def test_the_word_itself_is_all_green_though_the_game_does_not_say_so() -> None:
    (provider,) = build_reward_providers("Wordle-v0-long")
    scores = provider.compute(action=TextArenaAction(message="[shout]"), observation=observed("[shout]", reward=1.0))
    assert (scores["wordle.greens"], scores["wordle.yellows"], scores["wordle.correct"]) == (1.0, 0.0, 1.0)


def test_in_a_transcript_only_what_is_new_counts() -> None:
    (provider,) = build_reward_providers("Wordle-v0")
    first = "\n[GAME] " + answer("shout", "GXXXX")
    scores = provider.compute(
        action=TextArenaAction(message="[shout]"), observation=observed(first, category="MESSAGE")
    )
    assert scores["wordle.greens"] == 0.2
    refused = observed(first + "\n[GAME] You attempted an invalid move.", category="MESSAGE")
    assert provider.compute(action=TextArenaAction(message="[shout]"), observation=refused)["wordle.greens"] == 0.0


def test_other_games_have_no_providers() -> None:
    assert build_reward_providers("Sudoku-v0") == []
