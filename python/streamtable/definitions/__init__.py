"""Definitions of stream tables change: created, altered, replaced, renamed and dropped, each checked before it begins."""
