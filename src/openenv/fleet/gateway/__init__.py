"""The one address of a fleet: what it answers itself, and what it passes on to a server."""
