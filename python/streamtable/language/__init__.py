"""The statement language: text to statements and back. This room knows neither Spark nor tables."""
