"""Functions drawn from a posterior are values: the same at every call, in every array library."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import DirichletGPClassifier, FeatureGPRegressor, load, save
from gp.data import class_data, gaussian_features, polynomial_features, regression_data

X, y = regression_data()


class BasisDraws(np.random.Generator):
    """White noise that is the columns of √k [I, −I]: draws with exactly unit covariance."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size):
        rows, columns = size
        outputs = columns // (2 * rows)
        basis = np.sqrt(rows) * np.concatenate([np.eye(rows), -np.eye(rows)], axis=1)
        return np.tile(basis, outputs)


@pytest.mark.parametrize("outputs", [1, 2])
def test_mean_and_covariance_are_those_of_the_prediction(outputs):
    """Exactly: the functions of all basis vectors of the white noise stand for its distribution."""
    X, y = regression_data(outputs=outputs)
    gp = FeatureGPRegressor(gaussian_features(), noise_variance=0.1).fit(X, y)
    f = gp.sample_functions(2 * gp.columns_.n_columns, BasisDraws())
    values = f(X[:6]).reshape(6, outputs, -1)
    mean, covariance = gp.predict(X[:6], return_cov=True)
    np.testing.assert_allclose(values.mean(axis=-1), mean.reshape(6, outputs), rtol=1e-9)
    for k in range(outputs):
        deviations = values[:, k] - values[:, k].mean(axis=1, keepdims=True)
        expected = covariance.reshape(6, 6, outputs)[:, :, k]
        np.testing.assert_allclose(
            deviations @ deviations.T / f.n_functions, expected, atol=1e-9 * np.max(expected)
        )


@pytest.mark.parametrize("output", ["real", "complex", "complex_to_real"])
@pytest.mark.parametrize("posterior", ["real", "complex"])
def test_samples_of_y_are_values_of_the_functions(output, posterior, library):
    X, y = regression_data(outputs=2)
    gp = FeatureGPRegressor(polynomial_features(output), posterior=posterior).fit(X, y)
    f = gp.sample_functions(3, random_state=5)
    assert (f.n_functions, f(X).shape) == (3, (60, 2, 3))
    np.testing.assert_allclose(f(X), gp.sample_y(X, 3, random_state=5), rtol=1e-12)
    np.testing.assert_allclose(f(scipy.sparse.csr_array(X[:4])), f(X)[:4], rtol=1e-9)
    close = 1e-3 if library.name == "jax" else 1e-9  # float32 there
    found = library.numpy(f(library.asarray(X[:5])))
    np.testing.assert_allclose(found, f(X[:5]), rtol=close, atol=close)


def test_missing_variance_is_not_part_of_a_function():
    """Far away the features vanish: functions are constant there, samples of y are not."""
    gp = FeatureGPRegressor(gaussian_features(), variance_correction="posterior").fit(X, y)
    far = np.full((1, 3), 25.0)
    assert np.ptp(gp.sample_functions(50, random_state=0)(far)) < 1e-6
    assert np.std(gp.sample_y(far, 50)) > 0.1 * np.std(y)


def test_gradients_of_torch_and_jax():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    gp = FeatureGPRegressor(polynomial_features(), noise_variance=0.1).fit(X, y)
    f = gp.sample_functions(random_state=0)
    x = torch.tensor(X[:1], requires_grad=True)
    f(x).sum().backward()
    step = 1e-6 * np.eye(3)
    expected = (f(X[:1] + step) - f(X[:1] - step))[:, 0] / 2e-6
    np.testing.assert_allclose(x.grad[0].numpy(), expected, rtol=1e-5, atol=1e-6)
    found = jax.jit(jax.grad(lambda x: f(x[None])[0, 0]))(jax.numpy.asarray(X[0]))
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


def test_saved_functions_are_small_and_the_same(tmp_path):
    X, y = regression_data(200)
    gp = FeatureGPRegressor(polynomial_features(n_components=200)).fit(X, y)
    f = gp.sample_functions(2, random_state=0)
    save(f, tmp_path / "f.dotsketch")
    save(gp, tmp_path / "gp.dotsketch")
    for copy in (load(tmp_path / "f.dotsketch"), pickle.loads(pickle.dumps(f))):
        np.testing.assert_array_equal(copy(X), f(X))
    small, large = ((tmp_path / f"{name}.dotsketch").stat().st_size for name in ("f", "gp"))
    assert small < large / 10  # weights of 200 columns; the posterior has 200²


def test_functions_of_a_pipeline():
    features = make_pipeline(StandardScaler(), gaussian_features())
    f = FeatureGPRegressor(features).fit(X, y).sample_functions(2, random_state=0)
    np.testing.assert_allclose(f(X[:7]), f(X)[:7], rtol=1e-9)


def test_latent_functions_of_classes():
    X, y = class_data()
    gp = DirichletGPClassifier(gaussian_features(), alpha=0.01).fit(X, y)
    f = gp.sample_functions(2 * gp.columns_.n_columns, BasisDraws())
    mean, std = gp.predict_latent(X[:5])
    assert f(X[:5]).shape == (5, 3, 60)
    np.testing.assert_allclose(f(X[:5]).mean(axis=2), mean, rtol=1e-9)
    np.testing.assert_allclose(f(X[:5]).std(axis=2), std, rtol=1e-9)
