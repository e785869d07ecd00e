"""Public import paths of what lives in ``openenv.core.providers``."""
