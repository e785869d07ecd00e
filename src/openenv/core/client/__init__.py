"""Clients of environments: their calls, how their servers are started, and how they reach a server."""
