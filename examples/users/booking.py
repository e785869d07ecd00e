"""The desk of a restaurant: the agent finds out what a guest wants, and books it. A script or a model plays the guest.

openenv serve examples/users/booking.py
BOOKING_GUEST=Qwen/Qwen3-8B@http://localhost:8000 openenv serve examples/users/booking.py
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from openenv import Action, Environment, Observation, State, rng
from openenv.agents import Chat, Message, ModelUser, Participant, ScriptedUser, participants_metadata
from openenv.core.llm_client import LLMClient, model_client

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PATIENCE = 8  # messages of the agent


class Act(Action):
    """Say something to the guest, or book the table, which ends the episode: then with people, day and hour."""

    say: str = ""
    people: int | None = None
    day: str | None = None
    hour: int | None = None


class Guest(Observation):
    """What the guest says."""

    text: str


@dataclass(frozen=True)
class Wish:
    """The table that the guest wants."""

    people: int
    day: str
    hour: int

    @property
    def scenario(self) -> str:
        """Describe the guest for a model."""
        return (
            f"You talk to the desk of a restaurant. You want a table for {self.people} people on {self.day} at "
            f"{self.hour} o'clock, and you first say only that you would like to book a table."
        )

    def answer(self, messages: Sequence[Message]) -> str:
        """Answer what the agent asks, as a script."""
        if not messages:
            return "Hello, I would like to book a table."
        question = messages[-1]["content"].lower()
        answers = {
            "people": f"We are {self.people}.",
            "many": f"We are {self.people}.",
            "day": f"On {self.day}.",
            "when": f"On {self.day} at {self.hour}.",
            "time": f"At {self.hour}.",
            "hour": f"At {self.hour}.",
        }
        said = dict.fromkeys(answer for word, answer in answers.items() if word in question)
        return " ".join(said) or "What would you like to know?"


class BookingEnvironment(Environment[Act, Guest, State]):
    """Pays 1 for the table that the guest wants, and nothing for another one, or for none in eight messages.

    Args:
        model: Client of the model that plays the guest; by default that of ``BOOKING_GUEST``, or else a script does.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self, model: LLMClient | None = None) -> None:
        super().__init__()
        named = os.environ.get("BOOKING_GUEST")
        self._model = model_client(named, temperature=0.7) if model is None and named else model
        self._begin(Wish(1, DAYS[0], 12))

    async def reset(self, seed: int | None = None) -> Guest:
        """Have a guest call."""
        chance = rng(seed, "guest")
        self._begin(Wish(chance.randint(2, 6), chance.choice(DAYS), chance.randint(17, 21)))
        return self._seen((await self._chat.send_async()).text)

    async def step(self, action: Act) -> Guest:
        """Book the table, or pass a message on to the guest."""
        self._state.step_count += 1
        if action.people is not None:
            booked = Wish(action.people, (action.day or "").capitalize(), action.hour or 0)
            return self._seen("Thank you.", reward=float(booked == self._wish), done=True)
        reply = await self._chat.send_async(action.say)
        over = reply.ends or self._state.step_count >= PATIENCE
        return self._seen(reply.text, reward=0.0, done=over)

    @property
    def state(self) -> State:
        """The number of the agent's messages."""
        return self._state

    def snapshot(self) -> Any:
        """Return the wish and the conversation, so that no model is paid twice for a session that is resumed."""
        return {"wish": asdict(self._wish), "chat": self._chat.snapshot(), "steps": self._state.step_count}

    def restore(self, snapshot: Any) -> None:
        """Continue from a snapshot."""
        self._begin(Wish(**snapshot["wish"]))
        self._chat.restore(snapshot["chat"])
        self._state.step_count = snapshot["steps"]

    def _begin(self, wish: Wish) -> None:
        guest: Participant = ScriptedUser(wish.answer) if self._model is None else ModelUser(self._model, wish.scenario)
        self._wish, self._chat, self._state = wish, Chat(guest, "guest"), State()

    def _seen(self, text: str, reward: float | None = None, *, done: bool = False) -> Guest:
        return Guest(text=text, reward=reward, done=done, metadata=participants_metadata([self._chat]))
