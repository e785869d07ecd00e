"""Python environments with what an environment's folder requires."""
