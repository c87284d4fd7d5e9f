"""A fit assigns its values at its end: what fails or is interrupted changes nothing."""

import copy
import sys

import numpy as np
import pytest
from sklearn.base import clone

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
)
from dotsketch.gp import ConjugateGradients
from gp.data import class_data, regression_data

WAVES = FourierFeatures(Gaussian(lengthscale=1.0), n_components=20, random_state=0)
CASES = {
    "default": FeatureGPRegressor(),
    "features": FeatureGPRegressor(WAVES),
    "cg": FeatureGPRegressor(WAVES, solver=ConjugateGradients(rank=4, n_samples=3)),
    "exact": ExactGPRegressor(),
    "warped": FeatureGPRegressor(WAVES, target_transform="auto", trend="linear"),
    "softmax": FeatureGPClassifier(),
    "dirichlet": DirichletGPClassifier(WAVES),
    "exact classes": ExactGPClassifier(Gaussian()),
}


def data_of(name, seed):
    is_class = name in ("softmax", "dirichlet", "exact classes")
    return class_data(60, seed=seed) if is_class else regression_data(60, seed=seed)


class Interrupted(BaseException):
    """Like Ctrl-C: not an Exception."""


def interrupted_after(n_calls, run):
    """Run a function and raise within the n-th call of a function of the package."""
    calls = [0]

    def trace(frame, event, argument):
        if event == "call" and "dotsketch" in frame.f_code.co_filename:
            calls[0] += 1
            if calls[0] == n_calls:
                sys.setprofile(None)
                raise Interrupted
        return None

    sys.setprofile(trace)
    try:
        run()
    except Interrupted:
        return True, calls[0]
    finally:
        sys.setprofile(None)
    return False, calls[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in generators
@pytest.mark.parametrize("name", CASES)
def test_an_interrupt_at_any_stage_leaves_the_model_as_it_was(name):
    X, y = data_of(name, 0)
    fitted = clone(CASES[name]).fit(X, y)
    before, (other_X, other_y) = fitted.predict(X), data_of(name, 1)
    _, total = interrupted_after(-1, lambda: clone(CASES[name]).fit(other_X, other_y))
    n_interrupted = 0
    for n_calls in np.unique(np.geomspace(1, total - 2, 12).astype(int)):
        gp = copy.copy(fitted)
        if interrupted_after(n_calls, lambda gp=gp: gp.fit(other_X[:, ::-1], other_y))[0]:
            n_interrupted += 1
            assert all(vars(gp)[key] is value for key, value in vars(fitted).items())
            np.testing.assert_array_equal(gp.predict(X), before)
    assert n_interrupted >= 8  # others fell into code that another library called, and were lost


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_fails_leaves_the_model_as_it_was(name):
    X, y = data_of(name, 0)
    gp = clone(CASES[name])
    with pytest.raises(ValueError, match=r".+"):
        gp.fit(X, y[:5])
    assert not any(key.endswith("_") for key in vars(gp))
    gp.fit(X, y)
    before = gp.predict(X)
    bad = X.copy()
    bad[0] = np.inf
    with pytest.raises(ValueError, match=r"infinity|NaN"):
        gp.fit(bad[:, :2], y)
    np.testing.assert_array_equal(gp.predict(X), before)


def test_rows_that_are_added_or_merged_in_vain():
    X, y = regression_data()
    gp = FeatureGPRegressor(WAVES).fit(X, y)
    before, sums = gp.predict(X), gp.statistics_
    with pytest.raises(ValueError, match="features"):
        gp.partial_fit(X[:, :2], y)
    interrupted_after(15, lambda: gp.partial_fit(X + 1, y))
    with pytest.raises(ValueError, match="different features"):
        gp.merge(FeatureGPRegressor(WAVES.__class__(Gaussian(), random_state=1)).fit(X, y))
    np.testing.assert_array_equal(gp.predict(X), before)
    assert gp.statistics_ is sums


@pytest.mark.parametrize("name", ["default", "features", "exact", "softmax", "dirichlet"])
def test_a_second_fit_is_a_first_one(name):
    X, y = data_of(name, 0)
    other = data_of(name, 1)
    twice, once = clone(CASES[name]).fit(*other).fit(X, y), clone(CASES[name]).fit(X, y)
    np.testing.assert_array_equal(twice.predict(X), once.predict(X))
    assert vars(twice).keys() == vars(once).keys()


@pytest.mark.parametrize("name", CASES)
def test_notebooks_show_what_a_fit_chose(name):
    gp = clone(CASES[name])
    assert "fitted</th>" not in gp._repr_html_()
    gp.fit(*data_of(name, 0))
    html = gp._repr_mimebundle_()["text/html"]
    assert gp._repr_html_().endswith(html[html.rindex("<table") :])
    for text in ("fitted</th>", "kernel</td>", "columns</td>", "prior variance</td>"):
        assert text in html
    assert ("search</td>" in html) == (gp.search_ is not None)
