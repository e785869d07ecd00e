"""The server side of the 2048 environment."""
