import pytest
from wonderwords import is_profanity

from wordle_env.words import LONGEST, SHORTEST, word_list


@pytest.mark.parametrize("length", range(SHORTEST, LONGEST + 1))
def test_every_length_has_enough_words_and_only_its_own(length: int) -> None:
    words = word_list(length)
    assert len(words.secrets) >= 250
    assert len(words.guesses) > 2 * len(words.secrets)
    assert set(words.secrets) <= words.guesses
    assert list(words.secrets) == sorted(set(words.secrets))
    assert all(len(word) == length and word.isascii() and word.islower() and word.isalpha() for word in words.guesses)


def test_secrets_are_everyday_words() -> None:
    secrets = set(word_list(5).secrets)
    assert len(secrets) > 1000
    assert {"mouse", "house", "bread", "music", "table", "green"} <= secrets
    assert not secrets & {"smolt", "sprag", "aaron", "zzzzz"}
    assert not any(is_profanity(word) for word in secrets)


def test_words_that_people_open_with_may_be_guessed() -> None:
    assert {"stare", "crane", "slate", "adieu", "house", "mouse", "books", "tried", "tares"} <= word_list(5).guesses


@pytest.mark.parametrize("length", [SHORTEST - 1, LONGEST + 1, 0, -5])
def test_other_lengths_have_none(length: int) -> None:
    with pytest.raises(ValueError, match=f"there are words of {SHORTEST} to {LONGEST} letters"):
        word_list(length)


def test_a_seed_stands_for_one_word_and_seeds_spread_over_the_list() -> None:
    words = word_list(5)
    drawn = [words.secret(seed) for seed in range(500)]
    assert drawn == [words.secret(seed) for seed in range(500)]
    # 500 draws from some 1,100 words: about 400 different ones.
    assert len(set(drawn)) > 350


def test_without_a_seed_words_differ() -> None:
    assert len({word_list(5).secret(None) for _ in range(20)}) > 1
