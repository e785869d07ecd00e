"""Actions and observations of the echo environment."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation


class EchoAction(Action):
    """Say something.

    Attributes:
        message: The text that the environment will say back.
    """

    message: str = Field(description="The text to echo")


class EchoObservation(Observation):
    """What the environment said.

    Attributes:
        echoed_message: The message of the last action; after a reset, a greeting.
        message_length: Length of the message in characters; 0 after a reset.
    """

    echoed_message: str = Field(description="The message, unchanged")
    message_length: int = Field(default=0, ge=0, description="Characters in the message")
