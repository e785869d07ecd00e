"""The ``openenv`` command: one module for each of its commands."""
