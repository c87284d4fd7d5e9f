"""Large inputs are worked on in chunks: peak memory ≤ input + output + 64 MiB."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from dotsketch import PolynomialSketch

name, output = sys.argv[1:]
X = np.ones((200_000, 64), dtype=np.float32)  # 49 MiB
model = PolynomialSketch(3, coef0=1.0, sketch=name, output=output, n_components=64, random_state=0)
model.fit(X[:1]).transform(X[:50_000:1000])  # what libraries allocate once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Z = model.transform(X)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024, Z.nbytes / 2**20)
"""


@pytest.mark.parametrize(
    ("name", "output"),
    [("tensor_srht", "complex"), ("tensor_sketch", "complex_to_real"), ("rademacher", "real")],
)
def test_peak_memory(name, output):
    command = [sys.executable, "-c", SCRIPT, name, output]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    growth, size = map(float, run.stdout.split())
    assert size > 45
    assert growth < size + 64  # one plane of all rows for each of three factors takes 147 MiB
