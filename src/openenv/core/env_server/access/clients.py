"""Limits of a server's clients: those of the server, or of the client's named token."""

from openenv.core.addresses import token_name
from openenv.core.env_server.access.rate import Rate, Rates
from openenv.core.env_server.access.tokens import NamedToken, TokenFile
from openenv.core.env_server.settings import ServerConfig


class ClientLimits:
    """Limits of clients, as ``access.peer.peer_address`` names them.

    Args:
        config: The server's settings.
        tokens: The named tokens; ``None`` for none.

    Attributes:
        limits_messages: Whether any client may have a limit of messages.
    """

    def __init__(self, config: ServerConfig, tokens: TokenFile | None) -> None:
        self._config = config
        self._tokens = tokens
        per_s = config.max_messages_per_s
        self.limits_messages = per_s is not None or tokens is not None
        self._rates = None if per_s is None else Rates(per_s)
        self._by_token: dict[str, Rate] = {}

    def max_sessions(self, client: str) -> int | None:
        """Return the number of sessions that a client may have at once; ``None`` for any number.

        It is 0 for a token that was removed from the file, whose connections are about to be closed.
        """
        name = token_name(client)
        if name is None or self._tokens is None:
            return self._config.max_sessions_per_client
        token = self._tokens.get(name)
        if token is None:
            return 0
        return self._config.max_sessions_per_client if token.max_sessions is None else token.max_sessions

    def rate_of_socket(self, client: str) -> Rate | None:
        """Return the rate limit of a client's new socket, shared by all with the same token; ``None`` for no limit."""
        token = self._limited_token(client)
        if token is not None:
            return self._rate_of(token)
        per_s = self._config.max_messages_per_s
        return None if per_s is None else Rate(per_s)

    def check_rate(self, client: str) -> None:
        """Count a message over HTTP; see ``Rate.check``."""
        token = self._limited_token(client)
        if token is not None:
            self._rate_of(token).check()
        elif self._rates is not None:
            self._rates.check(client)

    def _limited_token(self, client: str) -> NamedToken | None:
        """Return a client's token if that has a limit of messages of its own."""
        name = token_name(client)
        token = None if name is None or self._tokens is None else self._tokens.get(name)
        return None if token is None or token.max_messages_per_s is None else token

    def _rate_of(self, token: NamedToken) -> Rate:
        assert token.max_messages_per_s is not None
        rate = self._by_token.get(token.name)
        if rate is None:
            rate = self._by_token[token.name] = Rate(token.max_messages_per_s)
        elif rate.per_s != token.max_messages_per_s:
            rate.change(token.max_messages_per_s)
        return rate
