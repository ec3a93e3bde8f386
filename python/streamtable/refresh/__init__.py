"""The single refresh path: find facts, choose, compute, locate, commit; and VERIFY, which checks the result."""
