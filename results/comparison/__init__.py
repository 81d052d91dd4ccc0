"""Runs against runs: paired differences, noise floors, baselines and the gate over them."""
