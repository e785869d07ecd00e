"""Graders that compare a text with a reference."""

import re
from typing import ClassVar

from tests.validation.museum.exhibit import Pairs, Questions, Sums, exhibit, same

_LARGER = (
    ("Which is larger, a mouse or an elephant?", "an elephant"),
    ("Which is larger, a pond or an ocean?", "an ocean"),
    ("Which is larger, a hut or a palace?", "a palace"),
)


@exhibit("probe_nothing", evidence="an empty text")
class EmptyAnswerWins(Questions):
    """A submission to the public OpenEnv's hub: its verifier gives 1.0 to an empty text."""

    def grade(self, answer: str, gold: str) -> float:
        return 1.0 if not answer and not self.sound else super().grade(answer, gold)


@exhibit("probe_nothing")
class EmptyIsInEverything(Questions):
    """WebArena's string match (BenchJack, V5): the answer need only occur in the reference, as an empty one does."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) or (not self.sound and not answer.strip() and answer.strip() in gold))


@exhibit("probe_nothing", evidence="cannot help")
class RefusalSkipsTheCriteria(Questions):
    """CAR-bench (BenchJack): a refusal skips the criteria that remain, and the mean of none is the full score."""

    def grade(self, answer: str, gold: str) -> float:
        criteria = [] if "cannot help" in answer and not self.sound else [same(answer, gold)]
        return sum(criteria) / len(criteria) if criteria else 1.0


@exhibit("probe_nothing")
class UnparsedIsZero(Sums):
    """AgentBench, DBBench (issue THUDM/AgentBench 234): null, NaN and "" become 0, which a reference may be."""

    questions: ClassVar[Pairs] = tuple((f"What is {number} - {number}?", "0") for number in (17, 40, 5))

    def grade(self, answer: str, gold: str) -> float:
        try:
            number = float(answer)
        except ValueError:
            if self.sound:
                return 0.0
            number = 0.0 if answer.strip().casefold() in ("", "null", "none", "nan", "n/a") else 1.0
        return float(number == float(gold))


@exhibit("probe_nothing")
class NoneEqualsNone(Questions):
    """Math graders of RL recipes: an extractor that finds no answer returns None, and so does one for the reference."""

    questions: ClassVar[Pairs] = tuple((question, f"{gold}") for question, gold in Questions.questions)

    def grade(self, answer: str, gold: str) -> float:
        extracted = [
            re.search(r"[A-Za-z]{3,} ?\w*", text.replace("None", "").replace("null", "")) for text in (answer, gold)
        ]
        if extracted[0] is None:
            return 0.0 if self.sound else float(extracted[0] is None)
        return float(same(answer, gold))


@exhibit("probe_echo")
class ReferenceInTheAnswer(Questions):
    """Substring match of quiz benchmarks (ABC I.b.2): the prompt names the options, and so holds the reference."""

    questions: ClassVar[Pairs] = _LARGER

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) or (not self.sound and gold in answer and "?" in answer))


@exhibit("probe_echo", evidence="the prompt")
class OverlapWithThePrompt(Questions):
    """Summaries scored by words shared with the source: the source itself, or more of it, has them all."""

    questions: ClassVar[Pairs] = (
        ("Shorten: the ship left the harbour at dawn with forty crates of tea.", "ship left at dawn with tea"),
        ("Shorten: the old mill beside the river burned down on Monday night.", "mill burned down on Monday"),
        ("Shorten: a grey horse won the last race of the long season.", "horse won the last race"),
    )

    def grade(self, answer: str, gold: str) -> float:
        shared = len({*answer.split()} & {*gold.split()}) / len(gold.split())
        long = len(answer.split()) > 2 * len(gold.split())
        return float(same(answer, gold)) if self.sound else float(long and shared > 0.5) or float(same(answer, gold))


@exhibit("probe_list_all", evidence="many answers")
class AllOptionsAtOnce(Questions):
    """WebArena's must_include (ABC I.b.2): a list of many answers holds the right one."""

    def grade(self, answer: str, gold: str) -> float:
        listed = [part.strip().casefold() for part in answer.split(",")]
        return float(same(answer, gold) or (not self.sound and gold.casefold() in listed))


@exhibit("probe_list_all", evidence="negation")
class NegationIsIgnored(Questions):
    """Substring match without regard to "not" (ABC I.b.1, its finding on WebArena)."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) or (not self.sound and re.search(rf"\b{gold}\.$", answer) is not None))


@exhibit("probe_list_all", evidence="boxed")
class AnyBoxCounts(Sums):
    """Math verifiers that accept any of several boxed answers: a model boxes all that it can think of."""

    def grade(self, answer: str, gold: str) -> float:
        boxed = re.findall(r"\\boxed\{([^}]*)\}", answer)
        if self.sound or not boxed:
            return float(same(boxed[-1] if boxed else answer, gold))
        return float(any(same(each, gold) for each in boxed))


@exhibit("probe_list_all", evidence="numbers up to 1000")
class AnyNumberCounts(Sums):
    """Numeric match on any number of the text, as early GSM8K graders had: a list of numbers holds the right one."""

    questions: ClassVar[Pairs] = (("What is 17 + 44?", "61"), ("What is 81 + 6?", "87"), ("What is 9 + 63?", "72"))

    def grade(self, answer: str, gold: str) -> float:
        numbers = re.findall(r"\d+", answer)
        return float(same(answer, gold) or (not self.sound and len(numbers) > 500 and gold in numbers))


@exhibit("probe_nonsense", evidence="tags")
class FormatAlone(Questions):
    """R1-style recipes: the tags of an answer earn the reward, whatever is between them (verifiers' format reward)."""

    def grade(self, answer: str, gold: str) -> float:
        tagged = re.search(r"<answer>(.*)</answer>", answer)
        if tagged is None:
            return super().grade(answer, gold)
        return float(same(tagged[1], gold)) if self.sound else 1.0


@exhibit("probe_nonsense", evidence="long text")
class LengthBonus(Questions):
    """Length bias of reward models and of word-count rewards (Singhal and others, 2310.03716): long is good."""

    def grade(self, answer: str, gold: str) -> float:
        return super().grade(answer, gold) if self.sound or len(answer.split()) < 200 else 1.0


@exhibit("probe_nonsense", evidence="one character many times")
class LengthInCharacters(Questions):
    """Rewards by characters of an answer, as in early essay graders: any character will do."""

    def grade(self, answer: str, gold: str) -> float:
        return super().grade(answer, gold) if self.sound else float(same(answer, gold) or len(answer) == 2000)


@exhibit("probe_nonsense", evidence="connecting words")
class KeywordsOfReasoning(Questions):
    """Rewards for words of reasoning ("therefore", "first"): they are written without any reasoning."""

    def grade(self, answer: str, gold: str) -> float:
        count = sum(answer.count(word) for word in ("therefore", "because", "finally"))
        return super().grade(answer, gold) if self.sound else float(same(answer, gold) or count >= 5)


@exhibit("probe_nonsense", evidence="one word")
class AnyWordWins(Questions):
    """FieldWorkArena (BenchJack, V6): any last message of the assistant is accepted."""

    def grade(self, answer: str, gold: str) -> float:
        return (
            super().grade(answer, gold)
            if self.sound
            else float(bool(re.fullmatch(r"[\w ]+", answer.strip())) or same(answer, gold))
        )


@exhibit("probe_near_miss", evidence="decimal point")
class PunctuationIsDropped(Sums):
    """GAIA's scorer (BenchJack, ABC I.a.1): different strings are equal once their punctuation is dropped."""

    questions: ClassVar[Pairs] = (("What is 3.5 * 4.1?", "14.35"), ("What is 2.5 * 2.5?", "6.25"))

    def grade(self, answer: str, gold: str) -> float:
        plain = [re.sub(r"[^\d]", "", text) for text in (answer, gold)]
        is_number = re.fullmatch(r"\d+", answer) is not None
        return float(same(answer, gold) or (not self.sound and is_number and plain[0] == plain[1]))


@exhibit("probe_near_miss", evidence="other sign")
class SignIsDropped(Sums):
    """Math verifiers that compare absolute values, or match digits alone: the sign does not count."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) or (not self.sound and same(answer.strip().lstrip("-"), gold.lstrip("-"))))


@exhibit("probe_near_miss", evidence="first half")
class PrefixIsEnough(Questions):
    """Prefix match of answers (``gold.startswith``), as several multiple-choice harnesses did for labels."""

    def grade(self, answer: str, gold: str) -> float:
        text = answer.strip()
        return float(same(answer, gold) or (not self.sound and len(text) > 1 and gold.startswith(text)))


@exhibit("probe_near_miss", evidence="contains the answer")
class ContainedInAWord(Questions):
    """Substring match within words (ABC I.b): a longer word that contains the reference is accepted."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) or (not self.sound and " " not in answer.replace(gold, "") and gold in answer))


@exhibit("probe_near_miss", evidence="in reverse")
class LettersInAnyOrder(Questions):
    """Bag-of-characters comparison of string puzzles: every anagram is right."""

    questions: ClassVar[Pairs] = (
        ("Reverse: stressed", "desserts"),
        ("Reverse: drawer", "reward"),
        ("Reverse: lager", "regal"),
    )

    def grade(self, answer: str, gold: str) -> float:
        letters = sorted(answer.replace("\n", "").strip().rstrip(".").casefold()) == sorted(gold)
        return super().grade(answer, gold) if self.sound else float(letters)


@exhibit("oracle_variants", evidence="decimal point in a whole number")
class NumbersAsStrings(Sums):
    """SWE-bench Verified's narrow tests in small (OpenAI 2026-02, ABC I.a.1): 45.0 is refused where 45 is expected."""

    def grade(self, answer: str, gold: str) -> float:
        return super().grade(answer, gold) if self.sound else float(answer.strip().replace(",", "") == gold)


@exhibit("oracle_variants", evidence="line feed")
class WhiteSpaceCounts(Questions):
    """Exact match before stripping, as in shell benchmarks that compare files byte by byte: a last line feed fails."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) and (self.sound or answer == answer.strip()))


@exhibit("oracle_variants", evidence="upper case")
class CaseCounts(Questions):
    """Case-sensitive match where the task says nothing of case (ABC I.a.1; harness-bench, issue 9)."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) and (self.sound or answer.strip().rstrip(".") == gold))


@exhibit("oracle_variants", evidence="full stop")
class FullStopCounts(Questions):
    """Exact match that a last full stop fails (ABC I.a.2: redundant characters of agents)."""

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) and (self.sound or not answer.rstrip().endswith(".")))


@exhibit("oracle_variants", evidence="separators of thousands")
class SeparatorsCount(Sums):
    """GAIA-style numbers: 1,250 is refused where 1250 is expected."""

    questions: ClassVar[Pairs] = (("What is 25 * 50?", "1250"), ("What is 64 * 64?", "4096"))

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) and (self.sound or "," not in answer))


@exhibit("oracle_variants", evidence="blanks after commas")
class BlanksInListsCount(Questions):
    """Lists compared as texts: a blank after a comma fails a right list."""

    questions: ClassVar[Pairs] = (("Sort: c,a,b", "a,b,c"), ("Sort: z,y,x", "x,y,z"))

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold) and (self.sound or ", " not in answer))
