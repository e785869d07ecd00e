"""Questions that are to be answered in one word: a first environment for a small pretrained model.

make demo-llm trains SmolLM2-135M-Instruct on it, on a CPU. By hand:

openenv train examples/one_word.py --config examples/one_word.yaml
"""

import random
import re

from openenv import Action, Environment, Observation, State

SUBJECTS = {
    "What is the capital of {}?": ("France", "Italy", "Spain", "Japan", "Egypt", "Greece", "Poland", "Cuba", "Kenya"),
    "What colour is {}?": ("grass", "snow", "the sun", "the sky", "a banana", "blood", "coal", "milk", "chocolate"),
    "Where does a {} live?": ("dog", "cat", "cow", "horse", "lion", "mouse", "frog", "sheep", "bee", "owl", "wolf"),
}


class Answer(Action):
    """An answer."""

    text: str


class Question(Observation):
    """A question."""

    text: str


class OneWordEnvironment(Environment[Answer, Question, State]):
    """Pays 1 for an answer of one word, a quarter less for each word more; nothing without a word of three letters."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: int | None = None) -> Question:
        """Choose a question."""
        chance = random.Random(seed)  # noqa: S311  # a game, not a secret
        question = chance.choice(list(SUBJECTS))
        self._state = State()
        return Question(text=f"{question.format(chance.choice(SUBJECTS[question]))} Answer in one word.")

    def step(self, action: Answer) -> Question:
        """Count the words of the answer."""
        self._state.step_count += 1
        words = re.findall(r"\w+", action.text)
        is_answer = any(len(word) > 2 for word in words)
        return Question(text="", reward=max(0.0, 1.25 - len(words) / 4) if is_answer else 0.0, done=True)

    @property
    def state(self) -> State:
        """The number of answers."""
        return self._state
