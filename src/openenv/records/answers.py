"""Answers of a player: the rule for illegal ones, how many there were of each kind, and warnings of what they spoil."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from openenv.core.exceptions import ConfigurationError

__all__ = [
    "CALL_REMEDIES",
    "CUT_ANSWERS",
    "AnswerCounts",
    "AnswerRule",
    "IllegalAnswers",
    "answer_counts",
    "commonest_texts",
    "few_episodes_text",
    "illegal_text",
    "is_few",
    "no_calls_text",
]

IllegalAnswers = Literal["fallback", "end", "penalty"]
"""Effect of an illegal answer: it counts as the fallback action, ends its episode, or costs reward, unplayed."""

MAX_TEXTS = 5
LONGEST_TEXT = 80

CUT_ANSWERS = 0.1
"""A cut answer is seldom a legal action, and one in ten is as many as a policy makes by mistake in good runs."""

_FEW_EPISODES = 30
"""With fewer, the 95% interval of a share in the middle is wider than 0.35."""

_DOUBTFUL = 0.1
"""Share of illegal answers from which the reward of an evaluation is not that of the player alone; one in ten episodes
may then be won by an action that it did not choose."""

_NO_CALLS = 0.1
"""Share of episodes without any call from which a mean of rewards hides that nothing was played."""

COMMAND_REMEDIES = {
    "illegal_answers": "try --lenient, the other --form, or a larger model",
    "max_tokens": "a larger --max-tokens",
    "no_calls": "try --form text, a --system-prompt that requires calls, or a model that calls tools",
}
"""Remedies in warnings of a command, by the warnings' names."""

CALL_REMEDIES = {
    "illegal_answers": "try a system_prompt that describes the calls, or a larger model",
    "max_tokens": "a higher limit",
    "no_calls": "try a system_prompt that requires calls, or a model that calls tools",
}
"""Remedies in warnings of a library's own loop, in which answers are calls of tools."""


@dataclass(frozen=True)
class AnswerRule:
    """Reading of answers, and effect of an illegal one.

    Attributes:
        illegal_answers: What it does.
        illegal_penalty: What it costs, where that is the rule.
        fallback: The text of the action that it counts as; ``None`` for the environment's own, or where there is none,
            as in calls of tools: nothing is played then, and the model may answer again.
        lenient: Whether a text with one legal value in it is read as that value.
    """

    illegal_answers: IllegalAnswers = "fallback"
    illegal_penalty: float = 0.1
    fallback: str | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        """Refuse an effect that there is none of."""
        if self.illegal_answers not in get_args(IllegalAnswers):
            raise ConfigurationError(
                f"Expected 'fallback', 'end' or 'penalty', got illegal_answers={self.illegal_answers!r}."
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the rule in settings, which may be those of an earlier version, that had this one alone."""
        return cls(**{name: settings[name] for name in _OF_RULE if settings.get(name) is not None})

    @property
    def penalty(self) -> float:
        """Reward that an illegal answer costs in the episode itself."""
        return self.illegal_penalty if self.illegal_answers == "penalty" else 0.0

    def __str__(self) -> str:
        """Return what happens to each illegal answer, in words.

        Example:
            >>> str(AnswerRule(fallback="stay")), str(AnswerRule("end", lenient=True))
            ("each is played as 'stay'", 'each ends its episode; answers are read leniently')
        """
        if self.illegal_answers == "end":
            text = "each ends its episode"
        elif self.illegal_answers == "penalty":
            text = f"each costs {self.illegal_penalty:g}, and none is played"
        elif self.fallback is not None:
            text = f"each is played as {self.fallback!r}"
        else:
            text = "none is played"
        return f"{text}; answers are read leniently" if self.lenient else text

    @property
    def in_settings(self) -> str:
        """The same in words, where it is not known yet whether the environment has a fallback of its own."""
        own = "the environment's own fallback, where it has one"
        is_open = self.illegal_answers == "fallback" and self.fallback is None
        return str(replace(self, fallback=own)).replace(repr(own), own) if is_open else str(self)


_OF_RULE = tuple(AnswerRule.__dataclass_fields__)


@dataclass(frozen=True)
class AnswerCounts:
    """Numbers of answers in the episodes of a player that count.

    Attributes:
        episodes: Episodes.
        answers: Actions, and answers without a call of a tool.
        illegal: Answers that were no legal action.
        cut: Answers that ended at a limit of tokens.
        without_call: Answers in which no call of a tool could be read, each of which ends its episode.
        no_calls: Episodes without any call of a tool.
        illegal_episodes: Episodes with an illegal answer.
        illegal_texts: The commonest illegal answers, and how often each was given.
    """

    episodes: int = 0
    answers: int = 0
    illegal: int = 0
    cut: int = 0
    without_call: int = 0
    no_calls: int = 0
    illegal_episodes: int = 0
    illegal_texts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_lines(cls, lines: Iterable[Mapping[str, Any]]) -> Self:
        """Count the answers in lines of a `Collection`; an earlier version has noted the illegal ones alone."""
        lines = list(lines)
        texts: Counter[str] = Counter()
        for line in lines:
            texts.update(line.get("illegal_texts", {}))
        without_call = sum(line.get("answers_without_call", 0) for line in lines)
        return cls(
            episodes=len(lines),
            answers=sum(line["length"] for line in lines) + without_call,
            illegal=sum(line["illegal_actions"] for line in lines),
            cut=sum(line.get("cut_answers", 0) for line in lines),
            without_call=without_call,
            no_calls=sum(line.get("answers_without_call", 0) > 0 == line["length"] for line in lines),
            illegal_episodes=sum(line["illegal_actions"] > 0 for line in lines),
            illegal_texts=dict(texts.most_common(MAX_TEXTS)),
        )

    def share(self, count: int) -> float:
        """Return a number of answers as a share of all."""
        return count / self.answers if self.answers else 0.0

    def warnings(
        self, rule: AnswerRule | None, remedies: Mapping[str, str] = COMMAND_REMEDIES
    ) -> Iterator[tuple[str, str]]:
        """Yield name and text of each warning of what these answers spoil, under a rule if it is known."""
        if self.share(self.illegal) >= _DOUBTFUL:
            doubt = "" if rule is None else f"; {rule}"
            remedy = remedies["illegal_answers"]
            if rule is not None and rule.illegal_answers == "fallback" and rule.fallback is not None:
                doubt += ", so rewards are not those of its own answers"
                remedy += ", and read the scores by legal answers, or set --illegal-answers end"
            yield "illegal_answers", illegal_text(self.share(self.illegal), "", self.illegal_texts, doubt, remedy)
        if self.share(self.cut) >= CUT_ANSWERS:
            yield (
                "max_tokens",
                f"{self.share(self.cut):.0%} of the answers were cut off by their limit of tokens: try "
                f"{remedies['max_tokens']}.",
            )
        if self.episodes and self.no_calls / self.episodes >= _NO_CALLS:
            yield "no_calls", no_calls_text(self.no_calls / self.episodes, "", remedies["no_calls"])


def commonest_texts(texts: Iterable[str]) -> dict[str, int]:
    """Count the commonest texts, long ones by their beginnings.

    Example:
        >>> commonest_texts(["jump", "fly", "jump"])
        {'jump': 2, 'fly': 1}
    """
    return dict(Counter(_shortened(text) for text in texts).most_common(MAX_TEXTS))


def answer_counts(
    *,
    length: int,
    illegal_actions: int,
    illegal_texts: Iterable[str] = (),
    cut_answers: int = 0,
    answers_without_call: int = 0,
) -> dict[str, Any]:
    """Return the numbers of an episode's answers and the commonest illegal ones, as a line of a `Collection` has them.

    Example:
        >>> answer_counts(length=3, illegal_actions=1, illegal_texts=["jump"])["illegal_texts"]
        {'jump': 1}
    """
    return {
        "length": length,
        "illegal_actions": illegal_actions,
        "cut_answers": cut_answers,
        "answers_without_call": answers_without_call,
        "illegal_texts": commonest_texts(illegal_texts),
    }


def illegal_text(share: float, where: str, texts: Mapping[str, int], doubt: str, remedy: str) -> str:
    """Return the warning of a share of answers, such as those ``in the last 10 steps``, that were no legal action."""
    commonest = Counter(texts).most_common(MAX_TEXTS)
    listed = ", ".join(f"{text!r} ({count} times)" for text, count in commonest)
    most = f", most often {listed}" if listed else ""
    return f"{share:.0%} of the answers{where} were no legal action{most}{doubt}: {remedy}."


def no_calls_text(share: float, where: str, remedy: str) -> str:
    """Return the warning of a share of episodes in which no tool was called."""
    return (
        f"In {share:.0%} of the episodes{where} the model called no tool at all, so nothing was played, and their "
        f"rewards are those of no action: {remedy}."
    )


def is_few(count: int) -> bool:
    """Return whether so many tasks, or episodes of one task each, leave a mean uncertain."""
    return count < _FEW_EPISODES


def few_episodes_text(count: int, noun: str, low: float | None, high: float | None, remedy: str) -> str:
    """Return the warning of a mean over few tasks or episodes: how few, and how wide its interval is."""
    if low is None or high is None:
        width = "no interval"
    else:
        width = "all rewards alike" if low == high else f"a 95% interval {high - low:.3g} wide"
    counted = f"{count} {noun}{'' if count == 1 else 's'}"
    return f"The mean reward is of {counted} and one seed, with {width}: try {remedy}, and other seeds."


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
