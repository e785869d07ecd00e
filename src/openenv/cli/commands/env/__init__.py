"""``openenv env``: the environments that a dataset declares."""
