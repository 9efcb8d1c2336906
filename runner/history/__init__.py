"""A repository of the package under test, read: tags, lines and twins, and checkouts of our own."""
