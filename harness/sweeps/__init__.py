"""Grids of runs: the file, its cells, what is stored of them already, and running the rest."""
