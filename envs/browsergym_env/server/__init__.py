"""The server side of the BrowserGym environment."""
