"""Decoders: one file per algorithm, and what they share."""
