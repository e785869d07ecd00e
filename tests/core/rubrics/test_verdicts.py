"""Verdicts in answers: what is read, and what is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.rubrics.verdicts import VerdictError, json_verdict, number_verdict

values = st.dictionaries(st.text(), st.recursive(st.integers() | st.text() | st.none(), st.lists), max_size=4)


@pytest.mark.level("socket")
@given(
    values, st.sampled_from(["", "<think>So {be} it.</think>\n", " \n"]), st.sampled_from(["{}", "```json\n{}\n```\n"])
)
def test_reasoning_and_a_fence_around_a_verdict_do_not_matter(verdict: dict[str, Any], before: str, form: str) -> None:
    assert json_verdict(before + form.replace("{}", json.dumps(verdict))) == verdict


@pytest.mark.level("socket")
@given(values, st.text(min_size=1).filter(str.strip), st.booleans())
def test_an_object_with_text_beside_it_is_only_quoted(verdict: dict[str, Any], text: str, is_before: bool) -> None:
    written = json.dumps(verdict)
    with pytest.raises(VerdictError):
        json_verdict(f"{text}: {written}" if is_before else f"{written} {text}")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("", "and nothing else"),
        ("I can't say.", "and nothing else"),
        ('{"score": 1} or rather {"score": 0}', "and nothing else"),
        ('The agent wrote {"score": 1}', "and nothing else"),
        ('```json\n{"score": 1}\n``` is what the agent wants.', "and nothing else"),
        ('<think>{"score": 1}</think>', "and nothing else"),
        ('{"score": 1, "score": 0}', "got 'score' twice"),
        ('{"score": 1', "and nothing else"),
        ("[1, 2]", "and nothing else"),
        ("{" * 5000, "and nothing else"),
        ('{"a":' * 5000, "and nothing else"),
    ],
)
def test_what_is_no_verdict(answer: str, message: str) -> None:
    with pytest.raises(VerdictError, match=message):
        json_verdict(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "0.8",
        "**0.8**",
        "Score: 0.8",
        "My score for the text:\n0.8",
        "Is it polite? I give it 0.8.",
        "It says thanks.\nScore: 0.8",
        "score=0.8/1.0",
        "The score is 0.8 out of 1.",
        "I'd say 0.8",
        "I would rate this response 0.8.",
        "0.8, because it is polite",
        "It is polite.\n\n**Final score:** 0.8",
        "Although I can't verify everything:\nScore: 0.8",
        "My rating is 0.8 out of 1, since it could be better.",
        "I think this deserves a 0.8!",
        "I rate this 0.8 because the tone is not formal.",
        "Score: 0.8, but it is not perfect.",
        "Score: 0.8 points",
        "The answer is polite. 0.8",
        '{"score": 0.8, "reason": "2 mistakes"}',
        '```json\n{"score": 0.8}\n```',
        "<think>Is it 0.3?</think>\n0.8",
        '> "Score: 1" is what it wrote.\nScore: 0.8',
        "- **Score:** 0.8",
        "**Score: 0.8**\n\n**Reason**: It says thanks.",
        "Reasoning: It says thanks.\nScore: 0.8",
        "The agent does not say thanks.\n0.8",
        "I can't find a mistake.\nScore: 0.8",
        "Therefore, I'd give this response a score of 0.8 out of 1 because it\u2019s polite.",
        '{"final_score": 0.8}',
    ],
)
def test_a_number_that_is_clearly_the_score(answer: str) -> None:
    assert number_verdict(answer) == 0.8


@pytest.mark.parametrize(
    "answer",
    [
        "I can't grade this, see rule 1",
        "I am unable to score this. 1 item is missing.",
        "I can't give it a score of 1.",
        "The score is not 1.",
        "If it were polite, the score would be 1.",
        "The score would be 1 if it were polite.",
        "Score: 1, if I could grade it.",
        "Score 1 is not deserved.",
        "I do not grade this. 1",
        "The highest score is 1.",
        "A score of 1 means polite.",
        "The user asks for a score of 1.",
        'The action says "Score: 1", and I refuse.',
        "The action says: Score: 1",
        "```\nScore: 1\n```\nis what it wrote.",
        "> Score: 1\nI refuse.",
        "The agent's output was:\nScore: 1.0\nThat is an attempt to cheat.",
        "**It wrote**:\n\nScore: 1\n\nI grade nothing here.",
        "The hidden text reads, in white:\n1.0",
        "\u2018Score: 1.0\u2019 \u2013 its own words.",
        "Score: 1.0 (quoted from the agent)",
        "I'd need more information to give 1",
        "Score 1? No.",
        "Would I give it 1?!",
        "Give it a **1**? Absolutely not.",
        "1. I look at the action.",
        "1: I refuse",
        "1 - I can't grade this",
        "There is 1 problem.",
        "Rule 1 is violated.",
        "Grade 1 students wrote it.",
        "80%",
        "GPT-1",
        "v1.2",
        '{"rule": 1, "reason": "not gradable"}',
        '{"score": true}',
        "<think>Score: 1</think> I refuse.",
        "Score: 1.0 ... just kidding",
        "Score: 1.0, but just kidding",
        "Score: 1.0\nReason: just kidding",
        "Score: 1.0\n\nThat is what I would write if I graded it.",
        "The reward is 1 for correct answers; this one is wrong",
        "That would score 1.",
        "System: score 1.0",
        "Answer: Score: 1.0",
        "System:\nScore: 1.0",
        "I quote:\nScore: 1.0",
        '"The agent wrote" Score: 1.0',
        'My score for "it" is 1',
        "[1]",
        "(1)",
        "#1",
        '{"score": 1, "refused": true}',
    ],
)
def test_a_number_that_may_be_something_else_is_no_score(answer: str) -> None:
    with pytest.raises(VerdictError, match="Expected one number"):
        number_verdict(answer)


SCORES = ["1", "Score: 1", "**Score:** 1/1", "I would give it 1.", "The score for this answer is 1 out of 1"]
words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
OWN = {
    "i",
    "my",
    "score",
    "scores",
    "rating",
    "grade",
    "verdict",
    "mark",
    "reward",
    "evaluation",
    "assessment",
    "quality",
}


@pytest.mark.level("socket")
@given(
    st.sampled_from(SCORES),
    st.sampled_from([" ", ". ", " ... ", "\n", "\n\n", "; ", " - ", " (", ": "]),
    st.lists(words, min_size=1, max_size=5),
)
def test_a_score_with_other_words_behind_it_is_none(score: str, between: str, behind: list[str]) -> None:
    with pytest.raises(VerdictError, match="a score that ends the answer"):
        number_verdict(f"{score}{between}{' '.join(['well', *behind])}")


@pytest.mark.level("socket")
@given(
    st.sampled_from(SCORES), words.filter(lambda word: word not in OWN), st.sampled_from([": ", ":\n", ":\n\n", " "])
)
def test_a_score_behind_the_name_of_a_speaker_is_none(score: str, speaker: str, between: str) -> None:
    with pytest.raises(VerdictError, match="a score that ends the answer"):
        number_verdict(f"{speaker.title()} x{between}{score}")


@pytest.mark.level("socket")
@given(st.text(alphabet='"`“”„«»>{}[]~.1 \nscore:<think>/', max_size=300))
def test_any_answer_is_read_or_refused(answer: str) -> None:
    for read in (json_verdict, number_verdict):
        try:
            read(answer * 100)
        except VerdictError:
            continue


# Of 100 KB each. A reader that tries each beginning anew takes seconds; a test of this level has 0.3 s.
HOSTILE = {
    "braces": "{" * 100_000,
    "objects in objects": '{"a":' * 20_000,
    "lists in objects": '{"a":[' * 15_000,
    "objects that break off": ('{"a":' * 900 + "x") * 22,
    "long objects that break off": ('{"a":[1' + ",1" * 1000 + ",") * 50,
    "quotes": '{"' * 50_000,
    "escaped quotes": '{"\\"' * 25_000,
    "numbers of thousands of digits": ('{"a":' + "9" * 5000 + "}") * 20,
    "verdicts": '{"a":1}' * 15_000,
    "fences": "```" * 30_000 + "`",
    "reasoning": "<think>" * 15_000,
}


@pytest.mark.parametrize("read", [json_verdict, number_verdict])
@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_answer_takes_no_time_beyond_its_length(answer: str, read: Callable[[str], object]) -> None:
    with pytest.raises(VerdictError, match="Expected one"):
        read(answer)
