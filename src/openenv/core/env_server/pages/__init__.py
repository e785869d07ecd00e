"""What a server shows to a browser: a start page, and the API's description, which needs nothing from elsewhere."""
