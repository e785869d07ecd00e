from textarena_env.words import common_words, english_words, nouns, pos_tag, words


def test_the_lists_are_long_sorted_and_in_lower_case() -> None:
    assert len(common_words()) > 5_000
    assert len(english_words()) > 100_000
    for listed in (common_words(), english_words()):
        assert list(listed) == sorted(set(listed))
        assert all(word.isascii() and word.islower() and word.isalpha() for word in listed)


def test_every_common_word_and_every_noun_is_an_english_word() -> None:
    assert set(common_words()) < set(english_words())
    assert nouns() < set(english_words())


def test_there_are_secrets_enough_for_wordle() -> None:
    for length in (5, 7):
        assert len([word for word in common_words() if word in nouns() and len(word) == length]) > 500


def test_what_stands_for_nltk_answers_as_nltk_does() -> None:
    assert words("en-basic") is common_words()
    assert words("en") is words() is english_words()
    assert pos_tag(["table", "quickly", "zzz"]) == [("table", "NN"), ("quickly", "X"), ("zzz", "X")]
