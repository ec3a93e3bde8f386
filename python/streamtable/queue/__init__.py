"""Change queues: a subscription whose readers have durable positions."""
