"""What there is to see: table functions, freshness, health of sources, and alerts."""
