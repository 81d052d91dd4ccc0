"""The networks: one transformer, its cache, weight loading, the bundled models and how they were trained."""
