"""Messages of customers, each for one of three teams: an environment whose tasks are the rows of tasks.csv."""

from typing import Literal

from openenv import Action, Environment, Observation, State, TaskSet


class Team(Action):
    """A team."""

    team: Literal["billing", "delivery", "account"]


class Message(Observation):
    """A message."""

    text: str


class TicketEnvironment(Environment[Team, Message, State]):
    """Send a customer's message to the team whose thing it is about. The reward is 1.0 for the right team."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    tasks = TaskSet("tasks.csv")

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._answer = ""

    def reset(self, question: str, answer: str) -> Message:
        """Show a message: the columns of its task are passed here."""
        self._state, self._answer = State(), answer
        return Message(text=question)

    def step(self, action: Team) -> Message:
        """Compare the team with the one of the task."""
        self._state.step_count += 1
        return Message(text="", reward=float(action.team == self._answer), done=True)

    @property
    def state(self) -> State:
        """The number of answers."""
        return self._state
