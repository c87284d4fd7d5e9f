"""The `dotsketch` command: random features and Gaussian processes for a table, without code.

One path through the modules: `tables` reads any format as chunks of Arrow columns; `schema` looks
through them once (kinds of columns, levels, means and scales, classes, a sample of the rows);
`encoding` turns chunks into numbers by a scikit-learn transformer; `modelling` plans, builds and
fits; `compare`, `fit`, `predict`, `info` and `datasets` are the commands; `output` and `report`
show results.
"""
