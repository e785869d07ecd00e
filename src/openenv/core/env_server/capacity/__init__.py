"""Capacity of a server: its slots for sessions, also over several workers, and the queue of requests for a slot."""
