"""One HTML file of what a page shows: the page's own scripts, and the answers of its routes."""
