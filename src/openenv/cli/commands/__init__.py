"""The commands, one module for each; imported only when the command runs."""
