"""Participants of an environment beside its agent: users and opponents, played by scripts or by language models.

Their tokens and their cost are in the record of an episode under their own names, never among the agent's.
"""

from openenv.agents.chat import Chat, participants_metadata
from openenv.agents.finding import find_participant
from openenv.agents.models import ModelPlayer, ModelUser
from openenv.agents.participant import Message, Participant, Reply
from openenv.agents.scripted import ScriptedUser
from openenv.core.exceptions import ParticipantFailedError
from openenv.core.wire.results import ParticipantUsage

__all__ = [
    "Chat",
    "Message",
    "ModelPlayer",
    "ModelUser",
    "Participant",
    "ParticipantFailedError",
    "ParticipantUsage",
    "Reply",
    "ScriptedUser",
    "find_participant",
    "participants_metadata",
]
