"""Output of the commands on a terminal, and the forms that a person fills in there."""
