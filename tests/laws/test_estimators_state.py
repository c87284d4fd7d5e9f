"""A fit assigns its values at its end: what fails or is interrupted changes nothing."""

import copy
import sys

import numpy as np
import pytest
from sklearn.base import clone

from .subjects import FEATURE_MAPS, WITH_OPTIONS, X, target_of

every = pytest.mark.parametrize("gp", WITH_OPTIONS.values(), ids=WITH_OPTIONS)


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
@every
def test_an_interrupt_at_any_stage_leaves_the_model_as_it_was(gp):
    y = target_of(gp)
    other = X[:, ::-1], y[::-1]
    fitted = clone(gp).fit(X, y)
    before = fitted.predict(X)
    _, total = interrupted_after(-1, lambda: clone(gp).fit(*other))
    calls = [("fit", n) for n in np.unique(np.geomspace(1, total - 2, 12).astype(int))]
    n_interrupted = 0
    if hasattr(fitted, "statistics_"):
        calls.append(("partial_fit", 15))
    for method, n_calls in calls:
        model = copy.copy(fitted)
        run = getattr(model, method)
        if interrupted_after(n_calls, lambda run=run: run(*other))[0]:
            n_interrupted += 1
            assert all(vars(model)[key] is value for key, value in vars(fitted).items())
            np.testing.assert_array_equal(model.predict(X), before)
    assert n_interrupted >= 8  # others fell into code that another library called, and were lost


@every
def test_a_fit_that_fails_leaves_the_model_as_it_was(gp):
    y, gp = target_of(gp), clone(gp)
    with pytest.raises(ValueError, match=r".+"):
        gp.fit(X, y[:5])
    assert not any(key.endswith("_") for key in vars(gp))
    before = gp.fit(X, y).predict(X)
    bad = np.where(np.arange(len(X))[:, None] == 0, np.inf, X)
    with pytest.raises(ValueError, match=r"infinity|NaN"):
        gp.fit(bad[:, :2], y)
    np.testing.assert_array_equal(gp.predict(X), before)
    if hasattr(gp, "statistics_"):
        sums = gp.statistics_
        with pytest.raises(ValueError, match="features"):
            gp.partial_fit(X[:, :2], y)
        np.testing.assert_array_equal(gp.predict(X), before)
        assert gp.statistics_ is sums


@pytest.mark.parametrize("features", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
def test_a_fit_that_fails_leaves_features_as_they_were(features):
    features = clone(features).fit(X)
    Z, infinite = features.transform(X), np.where(np.arange(len(X))[:, None] == 0, np.inf, X)
    for columns, rows, message in ((20, infinite, "infinity"), (0, X, "n_components must be")):
        before = dict(vars(features.set_params(n_components=columns)))
        with pytest.raises(ValueError, match=message):
            features.fit(rows[:, :2])
        assert vars(features) == before
    np.testing.assert_array_equal(features.transform(X), Z)


@every
def test_a_second_fit_is_a_first_one(gp):
    y = target_of(gp)
    twice, once = clone(gp).fit(X[:50, ::-1], y[:50]).fit(X, y), clone(gp).fit(X, y)
    np.testing.assert_array_equal(twice.predict(X), once.predict(X))
    assert vars(twice).keys() == vars(once).keys()


@every
def test_notebooks_show_what_a_fit_chose(gp):
    gp = clone(gp)
    assert "fitted</th>" not in gp._repr_html_()
    html = gp.fit(X, target_of(gp))._repr_mimebundle_()["text/html"]
    assert gp._repr_html_().endswith(html[html.rindex("<table") :])
    for text in ("fitted</th>", "kernel</td>", "columns</td>", "prior variance</td>"):
        assert text in html
    assert ("search</td>" in html) == (gp.search_ is not None)
