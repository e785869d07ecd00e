from typing import Any

import pytest

from wordle_env.textarena import Board, is_textarena

RULES = "[GAME] You are Playing Wordle.\nA secret 5-letter word has been chosen. You have 6 attempts to guess it."
REFUSED = (
    "[GAME] You attempted an invalid move. Reason: 'zzzzz' is not an English word. "
    "Please resubmit a valid move and remember to follow the game rules to avoid penalties."
)


def told(word: str, marks: str, left: int) -> str:
    spaced = f"{' '.join(word.upper())}\n{' '.join(marks)}"
    return f"[GAME] [{word}]\n[GAME] You submitted [{word}].\nFeedback:\n{spaced}\nYou have {left} guesses left."


STARE, CRANE = told("stare", "XXYYY", 5), told("crane", "XYYYY", 4)


def answer(*parts: str, whole: bool, reward: float | None = 0.0, done: bool = False, **info: str) -> dict[str, Any]:
    """A server's answer that tells these parts: as one whole transcript, or each as a message."""
    texts = [("MESSAGE", "\n" + "\n".join(parts))] if whole else [("GAME_MESSAGE", part) for part in parts]
    messages = [{"sender_id": -1, "category": category, "content": text} for category, text in texts]
    return {
        "observation": {"prompt": RULES, "messages": messages, "info": info},
        "reward": reward,
        "done": done,
    }


def read(parts: list[str], sent: list[str], *, whole: bool, last: dict[str, Any] | None = None) -> Board:
    """The board after a reset and these answers, the last of which has further fields."""
    board = Board().after(answer(parts[0], whole=whole, reward=None), "")
    assert board.is_untouched
    for number, word in enumerate(sent, start=1):
        shown = parts[: number + 1] if whole else [parts[number]]
        ending = last if last is not None and number == len(sent) else {}
        board = board.after(answer(*shown, whole=whole, **ending), word)
    return board


both_histories = pytest.mark.parametrize("whole", [True, False], ids=["whole", "new"])


@both_histories
def test_the_board_is_read_from_a_transcript(whole: bool) -> None:
    board = read([RULES, STARE, CRANE], ["stare", "crane"], whole=whole)
    assert board == Board(5, ("STARE", "CRANE"), ("⬛⬛🟨🟨🟨", "⬛🟨🟨🟨🟨"))
    assert board.fields() == {
        "word_length": 5,
        "feedback": "⬛🟨🟨🟨🟨",
        "guesses_left": 4,
        "guesses": ["STARE", "CRANE"],
        "feedbacks": ["⬛⬛🟨🟨🟨", "⬛🟨🟨🟨🟨"],
        "target_word": None,
        "text": "S⬛ T⬛ A🟨 R🟨 E🟨\nC⬛ R🟨 A🟨 N🟨 E🟨\n4 guesses left.",
    }


@both_histories
@pytest.mark.parametrize("earlier", [[], ["stare"]])
def test_the_guess_that_wins_is_green_though_nothing_is_told_of_it(whole: bool, earlier: list[str]) -> None:
    parts = [RULES, *([STARE] if earlier else []), "[GAME] [raven]"]
    board = read(parts, [*earlier, "raven"], whole=whole, last={"reward": 1.0, "done": True})
    assert board.guesses[-1] == board.target_word == "RAVEN"
    assert board.feedbacks[-1] == "🟩🟩🟩🟩🟩"
    assert (board.solved, board.over, len(board.guesses)) == (True, True, len(earlier) + 1)
    assert board.fields()["text"].endswith("\nSolved.")


@both_histories
def test_partial_credit_is_no_win_and_the_secret_is_taken_where_it_is_told(whole: bool) -> None:
    secret = "You didn't guess the word.\nThe secret word was: **raven**."
    board = read([RULES, STARE], ["stare"], whole=whole, last={"reward": 0.3, "done": True, "reason": secret})
    assert (board.solved, board.target_word, board.fields()["guesses_left"]) == (False, "RAVEN", 0)
    board = read([RULES, STARE], ["stare"], whole=whole, last={"reward": 0.0, "done": True})
    assert (board.solved, board.target_word, board.over) == (False, None, True)


@both_histories
def test_a_refused_guess_is_told_once_and_takes_none(whole: bool) -> None:
    board = read([RULES, REFUSED], ["zzzzz"], whole=whole)
    assert (board.guesses, board.is_untouched) == ((), False)
    assert board.fields()["text"] == "'zzzzz' is not an English word.\n6 guesses left."
    board = read([RULES, REFUSED, STARE], ["zzzzz", "stare"], whole=whole)
    assert (board.guesses, board.refusal) == (("STARE",), "")


@both_histories
def test_a_reset_clears_the_board_whatever_was_sent_last(whole: bool) -> None:
    played = read([RULES, STARE], ["stare"], whole=whole)
    assert played.after(answer(RULES, whole=whole, reward=None), "stare") == Board(5)


def test_longer_words_are_counted() -> None:
    rules = RULES.replace("5-letter", "7-letter")
    board = Board().after(answer(rules, whole=False, reward=None), "")
    assert board.word_length == 7
    assert board.after(answer(told("letters", "XXXXXXY", 5), whole=False), "letters").feedbacks == ("⬛⬛⬛⬛⬛⬛🟨",)


@pytest.mark.parametrize("other", [None, [], "text", {}, {"prompt": ""}, {"word_length": 5, "guesses_left": 6}])
def test_observations_of_other_environments_are_none_of_textarena(other: object) -> None:
    assert not is_textarena(other)
    assert is_textarena({"prompt": "", "messages": []})
