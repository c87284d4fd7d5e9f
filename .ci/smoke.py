"""What a user does first, with an installed wheel and its kernels, in an empty environment.

    python -m venv empty && empty/bin/pip install dist/*.whl && empty/bin/python .ci/smoke.py

Run it outside of the source tree, or at least without it on the path. cibuildwheel runs it too.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import dotsketch
from dotsketch._backends import cpp

package = Path(dotsketch.__file__).parent
assert "site-packages" in package.parts, f"{package} is not an installed package"
assert cpp.AVAILABLE, "the wheel has no compiled kernels"

rng = np.random.default_rng(0)
X = rng.random((200, 8))
y = np.sin(X.sum(axis=1))
features = dotsketch.AutoFeatures(dotsketch.Gaussian(), n_components=64, random_state=0)
model = dotsketch.FeatureGPRegressor(features).fit(X, y)
assert model.score(X, y) > 0.9
with tempfile.TemporaryDirectory() as folder:
    dotsketch.save(model, Path(folder) / "model")
    np.testing.assert_array_equal(
        dotsketch.load(Path(folder) / "model").predict(X), model.predict(X)
    )

sketch = dotsketch.PolynomialSketch(3, n_components=64, random_state=0).fit(X)
compiled = sketch.transform(X)
cpp.AVAILABLE = False
np.testing.assert_allclose(sketch.transform(X), compiled, rtol=1e-10)

binary = [path.name for path in (package / "_backends" / "cpp").glob("_kernels*")]
print(f"Python {sys.version.split()[0]}, dotsketch {dotsketch.__version__}, {binary}: right.")
