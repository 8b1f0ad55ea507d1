"""One short file per system, composed from the rooms."""
