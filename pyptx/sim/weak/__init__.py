"""Weak reads: the writes other than the last one from which a strong read may take its value."""
