"""The scheduler: which stream tables are due, in which order and at which versions, and the loop that refreshes them."""
