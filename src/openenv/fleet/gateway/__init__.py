"""Address of a fleet: the requests that it answers itself, and those that it forwards to a server."""
