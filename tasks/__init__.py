"""Tasks: prompts, data, stop rules and scorers."""
