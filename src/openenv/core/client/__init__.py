"""Clients of environments: what they are asked, where they are started, and how they reach a server."""
