"""Files beside the pages: tables, downloads, the feed, badges, vulnerability entries."""
