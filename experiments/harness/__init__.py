"""What all experiments share.

- `experiment`: what an experiment is: frozen configurations, `run(config, seed)`, `plot(rows)`; how
  it is run, stored and resumed
- `data`, `methods`: splits of data sets, and the methods that are compared
- `processes`: errors of kernels and Gaussian processes
- `plots`: figures and tables of many rows
- `claims`, `report`: what the paper claims, and the authors' own results, beside ours
"""
