"""The words of the project as frozen values: cases, releases, environments, cells, outcomes."""
