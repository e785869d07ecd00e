"""Pages for browsers: a start page and the API's description, which load nothing from other sites."""
