"""``Judge``: a rubric whose score a language model decides, with what the model has used in the episode."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from openenv.core.llm.usage import usage_of
from openenv.core.rubrics.base import Rubric, path_of
from openenv.core.wire.results import NO_REPLIES, PARTICIPANTS, ParticipantUsage, participants_of

if TYPE_CHECKING:
    from openenv.core.llm_client import LLMClient, LLMResponse

__all__ = ["Judge", "forget_usage", "judges_metadata"]


class Judge(Rubric):
    """Base class of rubrics that a language model decides.

    What its model uses is among the participants of an episode, under the judge's path; see "Users and opponents".

    Args:
        client: Client of the model.

    Attributes:
        usage: Use of the model since the last reset.

    Example:
        >>> from openenv.core.llm_client import LLMClient
        >>> class Stub(LLMClient):
        ...     async def complete(self, prompt, **kwargs):
        ...         return "yes"
        >>> class Polite(Judge):
        ...     async def forward(self, action, observation):
        ...         return float((await self.respond(f"Is this polite? {action}")).content == "yes")
        >>> import asyncio
        >>> judge = Polite(Stub("http://localhost", 8000))
        >>> asyncio.run(judge("please", None)), judge.usage.replies
        (1.0, 1)
    """

    usage: ParticipantUsage = NO_REPLIES

    def __init__(self, client: "LLMClient") -> None:
        super().__init__()
        self._client = client
        self._exchange: dict[str, Any] | None = None

    async def respond(self, prompt: str) -> "LLMResponse":
        """Return the model's answer to a prompt, and count it; of one that does not come, the tokens are not known.

        Args:
            prompt: The prompt.
        """
        self._exchange = {"prompt": prompt, "answer": None}
        answer = None
        try:
            answer = await self._client.respond(prompt)
        finally:
            self.usage += usage_of(self._client, answer)
        self._exchange = {"prompt": prompt, "answer": answer.content}
        return answer

    def evidence(self) -> Any:
        """Return the last prompt and its answer."""
        return self._exchange

    def episode_state(self) -> Any:
        """Return what the model has used, for snapshots of a session; ``None`` where it has answered nothing."""
        return {PARTICIPANTS: {"judge": asdict(self.usage)}} if self.usage.replies else None

    def load_episode_state(self, state: Any) -> None:
        """Restore what ``episode_state`` returned.

        Args:
            state: What it returned.
        """
        self.usage = participants_of(state[PARTICIPANTS])["judge"]


def judges_metadata(root: Rubric) -> dict[str, Any]:
    """Return what the models of judges have used in an episode, under ``participants``; nothing without judges.

    Args:
        root: The environment's rubric.
    """
    used = {path_of(judge, root): asdict(judge.usage) for judge in _judges(root) if judge.usage.replies}
    return {PARTICIPANTS: used} if used else {}


def forget_usage(root: Rubric) -> None:
    """Begin an episode, in which no judge has used anything.

    Args:
        root: The environment's rubric.
    """
    for judge in _judges(root):
        judge.usage = NO_REPLIES


def _judges(root: Rubric) -> Iterator[Judge]:
    return (each for each in (root, *root.rubrics()) if isinstance(each, Judge))
