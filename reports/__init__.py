"""Tables and pages made from what was measured: marks, tables, then the context, then the site."""
