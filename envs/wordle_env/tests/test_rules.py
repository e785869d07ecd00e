from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_env.rules import ABSENT, ELSEWHERE, IN_PLACE, MAX_GUESSES, Game, feedback, objection

# Few letters, so that repeated ones are the rule.
LETTERS = st.sampled_from("abc")
PAIRS = st.integers(1, 8).flatmap(
    lambda length: st.tuples(*[st.text(LETTERS, min_size=length, max_size=length) for _ in range(2)])
)


@pytest.mark.parametrize(
    ("secret", "guess", "marks"),
    [
        ("mouse", "mouse", "🟩🟩🟩🟩🟩"),
        ("mouse", "house", "⬛🟩🟩🟩🟩"),
        ("mouse", "brick", "⬛⬛⬛⬛⬛"),
        ("abbey", "babes", "🟨🟨🟩🟩⬛"),
        ("abbey", "kebab", "⬛🟨🟩🟨🟨"),
        ("abide", "speed", "⬛⬛🟨⬛🟨"),  # one of two e's is in the word
        ("erase", "speed", "🟨⬛🟨🟨⬛"),  # both are
        ("steal", "speed", "🟩⬛🟩⬛⬛"),  # the one in its place uses up the word's only e
        ("crepe", "speed", "⬛🟨🟩🟨⬛"),
    ],
)
def test_the_marks_of_known_pairs(secret: str, guess: str, marks: str) -> None:
    assert feedback(secret, guess) == marks


@given(PAIRS)
def test_a_letter_is_in_place_exactly_where_the_words_agree(pair: tuple[str, str]) -> None:
    secret, guess = pair
    agree = [letter == guessed for letter, guessed in zip(secret, guess, strict=True)]
    assert [mark == IN_PLACE for mark in feedback(secret, guess)] == agree


@given(PAIRS)
def test_each_letter_is_marked_as_often_as_both_words_have_it(pair: tuple[str, str]) -> None:
    secret, guess = pair
    marked = Counter(guessed for guessed, mark in zip(guess, feedback(secret, guess), strict=True) if mark != ABSENT)
    assert marked == Counter(secret) & Counter(guess)


@given(PAIRS)
def test_of_a_letter_that_is_too_many_the_left_ones_are_marked(pair: tuple[str, str]) -> None:
    secret, guess = pair
    marks = feedback(secret, guess)
    for letter in set(guess):
        not_in_place = [
            mark for guessed, mark in zip(guess, marks, strict=True) if guessed == letter and mark != IN_PLACE
        ]
        assert not_in_place == sorted(not_in_place, key=[ELSEWHERE, ABSENT].index)


@given(PAIRS)
def test_only_the_secret_gets_every_letter_in_place(pair: tuple[str, str]) -> None:
    secret, guess = pair
    assert (feedback(secret, guess) == IN_PLACE * len(secret)) == (secret == guess)


def test_words_of_different_lengths_have_no_feedback() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        feedback("mouse", "mice")


def test_a_game_ends_with_the_secret_or_with_the_last_guess() -> None:
    game = Game("mouse")
    assert (game.over, game.guesses_left, game.feedbacks) == (False, MAX_GUESSES, [])
    for number in range(MAX_GUESSES):
        assert not game.over
        assert game.guesses_left == MAX_GUESSES - number
        game = game.after("house")
    assert (game.over, game.solved, game.guesses_left) == (True, False, 0)
    solved = Game("mouse", ("house",)).after("mouse")
    assert (solved.over, solved.solved, solved.guesses_left) == (True, True, 0)
    assert solved.feedbacks == ["⬛🟩🟩🟩🟩", "🟩🟩🟩🟩🟩"]


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ("mice", "has 4 characters; guess a word of 5 letters"),
        ("", "has 0 characters"),
        ("mouses", "has 6 characters"),
        ("house", "guessed before"),
        ("zzzzz", "not in the word list"),
        ("mous3", "not in the word list"),
    ],
)
def test_what_is_wrong_with_a_guess_is_said(guess: str, says: str) -> None:
    objected = objection(Game("mouse", ("house",)), guess, {"house", "mouse", "mice", "mouses"})
    assert objected is not None
    assert says in objected


def test_a_legal_guess_meets_no_objection() -> None:
    assert objection(Game("mouse", ("house",)), "mouse", {"house", "mouse"}) is None
