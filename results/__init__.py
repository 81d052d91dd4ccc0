"""The run record and all that is read from it: metrics, statistics, tables, plots."""
