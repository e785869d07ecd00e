"""Other worlds' environments in and out, a module or folder for each; what they need is imported with them only."""
