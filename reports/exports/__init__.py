"""What lies beside the pages: tables, downloads, feeds, badges, entries of a database of bugs."""
