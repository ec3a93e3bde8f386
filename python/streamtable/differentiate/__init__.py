"""Differentiation: for each operator, how a change of its input changes its output. One module per operator."""
