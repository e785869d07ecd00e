"""Tools of an environment, as a model sees and calls them."""
