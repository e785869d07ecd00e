"""Use of a language model by one answer, under the model's name."""

from typing import TYPE_CHECKING

from openenv.core.wire.results import ParticipantUsage

if TYPE_CHECKING:  # servers import this for the judges of rubrics, and load no library of a model's server
    from openenv.core.llm_client import LLMClient, LLMResponse

__all__ = ["name_of_model", "usage_of"]


def name_of_model(client: "LLMClient") -> str:
    """Return the name of a client's model; that of its class where it has none.

    Args:
        client: The client.
    """
    return str(client.identity.get("model", type(client).__name__))


def usage_of(client: "LLMClient", answer: "LLMResponse | None") -> ParticipantUsage:
    """Return the use of a model by an answer; its numbers are not known where its server does not count.

    Args:
        client: The client that sent the request.
        answer: The answer; ``None`` where none came.
    """
    model = name_of_model(client)
    if answer is None or answer.usage is None:
        return ParticipantUsage(1, model=model)
    return ParticipantUsage(1, answer.usage.input_tokens, answer.usage.output_tokens, answer.cost_usd, model)
