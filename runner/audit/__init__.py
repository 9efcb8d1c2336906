"""Answers about a set of packages, from evidence: pure functions, for programs of others too.

`audit.audit` and `advise.advise` take what is known (`known.known`) and return frozen values.
"""
