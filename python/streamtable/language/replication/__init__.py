"""Publications, subscriptions and slots: statements as data, read from the grammar's trees, and written as text."""
