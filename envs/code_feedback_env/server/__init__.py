"""The server side of the code feedback environment."""
