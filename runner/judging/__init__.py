"""What an outcome means: expectations, verdicts, claims, ranges; what makes a case fair. Pure."""
