"""The experiments of the paper: every figure and table, with one harness.

- `experiment`: what an experiment is: frozen configurations, `run(config, seed)`, `plot(rows)`
- `store`, `runner`: results on disk, one file a finished unit; what is missing is run
- `data`, `methods`, `kernel_errors`, `posteriors`: splits, the methods compared, the metrics
- `plots`, `tables`, `gp_grid`: figures and tables of many rows
- `experiments`: one file a figure or table, named by the paper's numbers
- `claims`, `compare`: what the paper claims, and the authors' own results, beside ours
- `report`, `command`: one HTML file; the command `dotsketch reproduce`
"""

from .experiment import Experiment, Setting, Unit
from .experiments import EXPERIMENTS
from .methods import METHODS
from .runner import run_units
from .store import Store

__all__ = ["EXPERIMENTS", "METHODS", "Experiment", "Setting", "Store", "Unit", "run_units"]
