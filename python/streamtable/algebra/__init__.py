"""The algebra: operators over bags, read from Spark's analysed plan, normalised, and rendered back to SQL."""
