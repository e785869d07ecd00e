"""TRL: the slots of its trainer, a rollout function, environments as it takes them, and the tasks of all of them."""
