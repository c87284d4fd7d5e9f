"""Threads, memory, progress bars, atomic files: what every layer may use, independent of others."""
