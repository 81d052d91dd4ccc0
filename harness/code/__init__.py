"""Tasks whose answers are programs: prompts, clean-up, verdicts, and consent to run what a model wrote."""
