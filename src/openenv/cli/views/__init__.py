"""What the commands show on a terminal, and the forms in which they ask there."""
