"""Answers of a player: how many there were of each kind, what an illegal one does, and what is doubtful by them."""

from typing import Any

import pytest

from openenv.records.answers import AnswerCounts, AnswerRule, few_episodes_text


def line(length: int = 4, illegal: int = 0, **others: Any) -> dict[str, Any]:
    return {"length": length, "illegal_actions": illegal, **others}


def warned(lines: list[dict[str, Any]], rule: AnswerRule = AnswerRule(fallback="stay")) -> dict[str, str]:  # noqa: B008
    return dict(AnswerCounts.of_lines(lines).warnings(rule))


def test_answers_are_counted_by_their_kind() -> None:
    lines = [
        line(4, 2, illegal_texts={"jump": 1, "fly": 1}, cut_answers=1),
        line(3, 1, illegal_texts={"jump": 1}),
        line(0, 0, answers_without_call=1),
        line(5, 0, answers_without_call=1),
    ]
    counts = AnswerCounts.of_lines(lines)
    assert (counts.episodes, counts.answers, counts.illegal, counts.illegal_episodes) == (4, 14, 3, 2)
    assert (counts.cut, counts.without_call, counts.no_calls) == (1, 2, 1)
    assert counts.illegal_texts == {"jump": 2, "fly": 1}
    assert counts.share(counts.cut) == pytest.approx(1 / 14)


def test_lines_of_an_earlier_version_have_the_number_of_illegal_answers_alone() -> None:
    counts = AnswerCounts.of_lines([line(4, 4), line(4, 0)])
    assert (counts.illegal, counts.illegal_texts, counts.cut, counts.no_calls) == (4, {}, 0, 0)
    assert warned([line(4, 4), line(4, 0)])["illegal_answers"].startswith("50% of the answers were no legal action; ")


def test_without_an_episode_nothing_is_doubtful() -> None:
    assert warned([]) == {}
    assert AnswerCounts().share(0) == 0.0


def test_illegal_answers_are_doubtful_from_one_in_ten_on() -> None:
    assert warned([line(10, 0)] * 10) == {}
    assert warned([line(10, 1)] * 9 + [line(10, 0)]) == {}
    text = warned([line(10, 1, illegal_texts={"fly": 1})] * 10)["illegal_answers"]
    assert text.startswith("10% of the answers were no legal action, most often 'fly' (10 times); each is played as ")
    assert "so rewards are not those of its own answers" in text
    ended = warned([line(1, 1)], AnswerRule("end"))["illegal_answers"]
    assert "; each ends its episode: try" in ended


def test_cut_answers_and_episodes_without_a_call_are_doubtful() -> None:
    assert warned([line(5, cut_answers=1)]).keys() == {"max_tokens"}
    assert warned([line(50, cut_answers=1)]) == {}
    silent = warned([line(0, answers_without_call=1), line(4)])
    assert silent["no_calls"].startswith("In 50% of the episodes the model called no tool at all, so nothing was")
    assert warned([line(4, answers_without_call=1)]) == {}, "it has played before"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AnswerRule(fallback="stay"), "each is played as 'stay'"),
        (AnswerRule(), "none is played"),
        (AnswerRule("end", fallback="stay"), "each ends its episode"),
        (AnswerRule("penalty", 0.5), "each costs 0.5, and none is played"),
        (AnswerRule(fallback="stay", lenient=True), "each is played as 'stay'; answers are read leniently"),
    ],
)
def test_a_rule_in_words(rule: AnswerRule, words: str) -> None:
    assert str(rule) == words


def test_in_settings_the_environment_s_own_fallback_is_not_known_yet() -> None:
    assert AnswerRule().in_settings == "each is played as the environment's own fallback, where it has one"
    assert AnswerRule(fallback="up").in_settings == "each is played as 'up'"
    assert AnswerRule("end").in_settings == "each ends its episode"


def test_settings_of_an_earlier_version_have_the_rule_of_that() -> None:
    assert AnswerRule.of({"environment": "catch"}) == AnswerRule()
    settings = {"illegal_answers": "penalty", "illegal_penalty": 0.3, "fallback": None, "lenient": True}
    assert AnswerRule.of(settings) == AnswerRule("penalty", 0.3, None, lenient=True)


def test_a_mean_over_few_episodes_has_a_width_or_none() -> None:
    text = few_episodes_text(8, "episode", 0.1, 0.6, "a larger --eval-episodes")
    assert text.startswith("The mean reward is of 8 episodes and one seed, with a 95% interval 0.5 wide: try a larger")
    assert "of 1 task and one seed, with no interval" in few_episodes_text(1, "task", None, None, "more")
    assert "with all rewards alike" in few_episodes_text(3, "task", 1.0, 1.0, "more")
