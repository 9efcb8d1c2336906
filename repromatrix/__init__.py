"""repromatrix: reported dtype bugs, measured on every release of transformers.

In a checkout `repromatrix/runner` and `repromatrix/reports` are symbolic links to the top-level
folders; in a distribution they are the folders themselves. There is one import name everywhere.
"""
