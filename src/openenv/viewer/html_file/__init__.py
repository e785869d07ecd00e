"""An HTML file of what a page shows: the page's scripts, and the answers of its routes."""
