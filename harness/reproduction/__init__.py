"""Published rows run again, and their figures set beside the printed ones."""
