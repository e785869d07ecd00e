"""Settings of a run, and the folder in which a run keeps them with its results."""
