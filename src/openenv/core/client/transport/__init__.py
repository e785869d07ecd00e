"""How a client reaches a server: sockets, sessions over them, and what happens when a socket is lost."""
