"""Attacks on model files that were tried, one short script each.

    python -m attacks [NAME …]      # a table: what happens, memory and time
    python -m attacks.zip_bomb      # one of them

A script has a function `files(path)` that writes one forged file after the other to `path` and
yields what was forged. Each file is loaded in a process of its own that has limits of memory and
time (`harness`). A script may say in `attempt(path)` what else is done with the file. `forging`
makes files whose checksums are right.
"""
