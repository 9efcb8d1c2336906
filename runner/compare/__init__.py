"""Both sides of a comparison brought to what is measured, with as few runs as that takes."""
