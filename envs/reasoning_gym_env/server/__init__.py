"""The server side of the reasoning-gym environment."""
