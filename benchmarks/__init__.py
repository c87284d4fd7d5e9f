"""Speed and memory of the features, against other libraries and the limits of the machine.

- `cases`: the sizes that are measured
- `adapters`, `peers`: one small function a library, from a case to the call that is timed
- `worker`: one measurement, in a process of its own
- `machine`: what the processor and the memory can do at best, and how much of it a case needs
- `report`: the results as Markdown
- `common`: what the other scripts share
- `__main__`: the command, `python -m benchmarks` (or `make bench`)

Nothing is asserted here: the numbers are for reading.
"""
