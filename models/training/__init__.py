"""Training recipes: autoregressive, masked diffusion, and D2F distillation."""
