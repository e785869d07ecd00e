"""Tools of an environment, as a model is shown and calls them."""
