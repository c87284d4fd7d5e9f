"""Weights own their prepared forms, which are no part of their value."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

import dotsketch
from dotsketch import (
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
)
from dotsketch._backends import Prepared
from laws.subjects import CONFIGURATIONS, X

every_estimator = pytest.mark.parametrize("estimator", CONFIGURATIONS, ids=str)
pytestmark = pytest.mark.filterwarnings("ignore:projection=.sorf. in:UserWarning")


def owners(estimator):
    if isinstance(estimator, MaclaurinFeatures):
        return [weights for weights in estimator.weights_ if weights]
    return [estimator.weights_]


def forms(estimator):
    return [form for weights in owners(estimator) for form in vars(weights).values()]


@every_estimator
def test_forms_are_made_once(estimator):
    estimator = clone(estimator).fit(X)
    assert not forms(estimator)
    Z = estimator.transform(X)
    made = forms(estimator)
    assert len(made) == len(owners(estimator))
    assert all(isinstance(form, Prepared) for form in made)
    assert np.array_equal(estimator.transform(X), Z)
    assert all(a is b for a, b in zip(forms(estimator), made, strict=True))
    estimator.transform(X.astype(np.float32))  # another form
    assert len(forms(estimator)) == 2 * len(made)


@every_estimator
def test_forms_are_no_part_of_copies_pickles_and_files(estimator, tmp_path):
    estimator = clone(estimator).fit(X)
    fresh = pickle.dumps(estimator)
    Z = estimator.transform(X)
    assert pickle.dumps(estimator) == fresh
    dotsketch.save(estimator, tmp_path / "model")
    loaded = dotsketch.load(tmp_path / "model")
    for twin in (pickle.loads(fresh), copy.deepcopy(estimator), loaded):
        assert not forms(twin)
        assert np.array_equal(twin.transform(X), Z)
    weights = owners(estimator)[0]
    assert copy.copy(weights) == weights
    assert not vars(copy.copy(weights))
    assert type(weights).__name__ == type(weights).__qualname__


@every_estimator
def test_weights_cannot_change_behind_their_form(estimator):
    estimator = clone(estimator).fit(X)
    estimator.transform(X)
    for array in flat(owners(estimator)):
        assert not array.flags.writeable


def flat(values):
    for value in values:
        if isinstance(value, tuple):
            yield from flat(value)
        elif value is not None:
            yield value


def test_few_forms_are_kept():
    features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=8, random_state=0).fit(X)
    Z = features.transform(X)
    for lengthscale in range(1, 12):
        features.kernel_.lengthscale = float(lengthscale)
        np.testing.assert_allclose(features.transform(lengthscale * X), Z, rtol=0, atol=1e-14)
    assert 1 <= len(forms(features)) <= 4


@every_estimator
def test_threads_share_an_estimator(estimator):
    rows = np.random.default_rng(1).random((8, 50, 5))
    expected = [clone(estimator).fit(rows[0]).transform(X) for X in rows]
    shared = clone(estimator).fit(rows[0])
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(shared.transform, rows))
            for Z, E in zip(found, expected, strict=True):
                np.testing.assert_allclose(Z, E, rtol=1e-12, atol=1e-12)
