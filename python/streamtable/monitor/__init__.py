"""What people see: the answers to statements."""
