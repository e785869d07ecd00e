"""Page at ``/web``: a person plays the environment and looks at episodes on record."""
