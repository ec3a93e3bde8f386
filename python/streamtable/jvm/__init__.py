"""The JVM from Python: the gateway to its classes, the errors that it raises, its jars, and its calls to Python."""
