"""A run of ``openenv train``: warm-up, GRPO through TRL, its metrics and its report."""
