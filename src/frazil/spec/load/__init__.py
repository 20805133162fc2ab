"""YAML and Python to a pipeline, with the line of every problem; and back, as schema and first project."""
