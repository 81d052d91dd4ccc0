"""Accuracy against speed: Pareto fronts, the area under them, and the best setting within a budget."""
