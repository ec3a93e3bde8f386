"""The Python API: statements as methods, answers as dataclasses."""
