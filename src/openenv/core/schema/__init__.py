"""JSON Schema of methods and models: made from Python, read by clients and trainers."""
