"""What judges need of a language model's client beyond its answers: limits, and a cache on disk."""
