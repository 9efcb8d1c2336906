"""Parts that several pages share: the grid, cells, failures, workarounds, numbers."""
