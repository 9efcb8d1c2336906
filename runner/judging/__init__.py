"""What an outcome means: expectations, verdicts, claims, ranges, and what makes a case a fair one. Pure."""
