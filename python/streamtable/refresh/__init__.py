"""The single refresh path: prepare, choose, compute, locate, commit; and VERIFY, which checks what it did."""
