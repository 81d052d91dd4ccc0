"""Paper-style reports: the runs of one, its tables, figures and pages."""
