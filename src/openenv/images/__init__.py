"""Images of environments: what ``openenv build`` makes, of what, and how others start it."""
