"""Page at ``/web``: a person plays the environment, looks at episodes on record and at those that are played now."""
