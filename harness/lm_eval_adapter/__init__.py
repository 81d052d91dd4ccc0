"""Between lm-eval and this program: its task files, prompts and output files, and this program as one of its models."""
