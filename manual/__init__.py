"""What makes docs/ a site (mkdocs.yml, hooks.py), and those pages of its reference that are generated (reference.py)."""
