"""What all experiments share: running, storing, measuring, drawing and reporting.

- `experiment`: what an experiment is: frozen configurations, `run(config, seed)`, `plot(rows)`
- `store`, `runner`: results on disk, one file per finished unit; what is missing is run
- `data`, `methods`, `kernel_errors`, `posteriors`: splits, the methods compared, the metrics
- `plots`, `tables`, `gp_grid`: figures and tables of many rows
- `claims`, `checks`, `compare`: what the paper claims, and the authors' own results, beside ours
- `report`: one HTML file
"""
