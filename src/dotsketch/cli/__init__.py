"""The `dotsketch` command: random features and Gaussian processes for a table, without code.

One path through the modules: `tables` reads any format as chunks of Arrow columns; `schema` looks
through them once (kinds of columns, levels, scales, classes, a sample of the rows), and turns
chunks into numbers by the `TableEncoder` of `dotsketch.tables`; `modelling` fits Gaussian
processes, the only module that knows them. `compare`, `fit` and `predict` (with `info`) are the
commands; `output` and `report` show results.
"""
