"""Answers from a completions server, measured from outside."""
