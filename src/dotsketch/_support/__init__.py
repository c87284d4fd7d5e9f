"""Threads, progress bars and atomic files: what every layer may use, independent of the rest."""
