"""Logical replication: publications, subscriptions and slots; changes of tables applied to other tables, exactly once."""
