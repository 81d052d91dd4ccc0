"""Where models, decoders, tasks and results meet: the runner, timing, and the adapters to the scoring harnesses."""
