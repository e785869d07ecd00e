"""Actions and observations of a game of TextArena."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from openenv.core.env_server.types import Action, Observation, State

History = Literal["new", "cumulative"]
Opponents = Literal["self", "random", "scripted", "participant"]

GAME = -1  # the sender of what the game itself says
TRANSCRIPT = "MESSAGE"  # the category of a message that holds a whole transcript


class TextArenaAction(Action):
    """Write to the game: a move, or what you say to the other players.

    Attributes:
        message: The text. Most games look for a move in square brackets; where a text has no brackets, they are put
            around it, if the game wants them.
    """

    message: str = Field(max_length=100_000, description="Your move, in square brackets as in [crane], or what you say")


class TextArenaMessage(BaseModel):
    """One thing that was said.

    Attributes:
        sender_id: The player who said it; -1 for the game.
        content: The text.
        category: TextArena's kind of message: ``PROMPT``, ``PLAYER_ACTION``, ``GAME_ACTION_DESCRIPTION``,
            ``GAME_MESSAGE``, ``GAME_BOARD`` or ``GAME_ADMIN`` (a refused move); ``MESSAGE`` for a whole transcript.
    """

    sender_id: int
    content: str
    category: str


class TextArenaObservation(Observation):
    """What the player sees who is to move.

    Attributes:
        prompt: The rules, as this player is told them. (With the history ``cumulative``: the first message at the
            reset, the game's id afterwards.)
        messages: What was said since this player's last observation, its own message included. (With the history
            ``cumulative``: one message, the whole transcript.)
        current_player_id: The player who is to move, or who sees the end.
        legal_players: The players who may move now: that one, or nobody once the game is over.
        info: ``reward_signals`` in Wordle; at the end ``rewards``, TextArena's own number for each player, ``reason``
            in words, and ``truncated`` where ``max_turns`` ended it.
        text: The new messages as one text, for a language model.
    """

    prompt: str
    messages: list[TextArenaMessage] = Field(default_factory=list)
    current_player_id: int = 0
    legal_players: list[int] = Field(default_factory=list)
    info: dict[str, Any] = Field(default_factory=dict)
    text: str = ""


class TextArenaState(State):
    """Where the episode stands. It never holds what the game keeps secret.

    Attributes:
        env_id: The game's id.
        num_players: Players in the game.
        max_turns: Messages of all players after which the episode is cut off; ``None`` for the game's own end alone.
        turn: The game's turns so far; a refused move is none.
        last_reward: The last step's reward.
        last_info: The last observation's ``info``.
        raw_state: The facts of TextArena's state that every player knows.
    """

    env_id: str = "Wordle-v0"
    num_players: int = 1
    max_turns: int | None = None
    turn: int = 0
    last_reward: float = 0.0
    last_info: dict[str, Any] = Field(default_factory=dict)
    raw_state: dict[str, Any] = Field(default_factory=dict)
