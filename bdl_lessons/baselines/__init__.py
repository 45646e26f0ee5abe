"""Models that the dropout posteriors are measured against."""
