"""Files made on purpose to crash, to hang or to fill the memory: they are refused before that."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import dotsketch
from attacks.forging import (
    changed,
    forge,
    known_classes,
    obj,
    write_changed,
    write_state,
    write_tree,
)
from benchmarks.fuzz_subjects import by_class, subjects
from dotsketch import (
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    PersistenceError,
    Polynomial,
    PolynomialSketch,
    PositiveFeatures,
    load,
    save,
)
from dotsketch._backends import Prepared
from dotsketch._support.stored import MOST_COLUMNS, stored_fields
from dotsketch.features import Study
from dotsketch.pairs import PairStatistics
from dotsketch.persistence import container
from dotsketch.rows import Checkpoint, Rows

NUMBERS = np.linspace(0, 1, 30).reshape(10, 3)
UNSCALED = StandardScaler(with_mean=False, with_std=False).fit(NUMBERS)
SCALED = StandardScaler().fit(NUMBERS)


@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        (UNSCALED, {"n_features_in_": 2**31 - 1}),  # it has a number of rows, and no array
        (SCALED, {"n_features_in_": 4}),
        (SCALED, {"mean_": np.zeros((3, 3))}),
        (SCALED, {"mean_": "0"}),
        (SCALED, {"transform": 1}),
        (SCALED, {"extra_": 1}),
        (Polynomial(degree=3), {"degree": 2**63}),
        (Polynomial(degree=3), {"degree": 2.5}),
        (Gaussian(), {"extra": np.zeros(2)}),
        (FourierFeatures(Gaussian()), {"n_jobs": 500}),
    ],
    ids=lambda value: str(value)[:50].replace("\n", " "),
)
def test_forged_attributes_are_refused(estimator, changes, tmp_path):
    write_state(tmp_path / "f", estimator)
    load(tmp_path / "f")
    write_state(tmp_path / "f", estimator, **changes)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


def test_a_folder_of_pickles_cannot_be_named(tmp_path):
    """joblib opens what it finds there when a pipeline is fitted."""
    state = {"steps": [], "memory": str(tmp_path)}
    write_tree(tmp_path / "f", obj("sklearn.Pipeline", **state))
    with pytest.raises(PersistenceError, match="memory"):
        load(tmp_path / "f")


def test_a_class_of_the_caller_is_not_checked(tmp_path):
    write_changed(tmp_path / "f", Gaussian(), extra=np.zeros(2))
    with pytest.raises(PersistenceError, match="has none there"):
        load(tmp_path / "f")
    assert len(load(tmp_path / "f", classes=(Gaussian,)).extra) == 2


def test_a_tree_of_many_values_is_refused_before_it_is_parsed(tmp_path):
    """A list of two bytes takes 56 in memory; this tree is no JSON, and nobody finds out."""
    forge(tmp_path / "f", [("model.json", b"[],[" * container.MAX_NODES)])
    with pytest.raises(PersistenceError, match="values, more than"):
        load(tmp_path / "f")


# The list of classes


@pytest.mark.parametrize("cls", [Study, Rows, PairStatistics, Prepared, Checkpoint])
def test_helpers_are_not_in_the_list(cls, tmp_path):
    write_tree(tmp_path / "f", obj(f"dotsketch.{cls.__name__}"))
    with pytest.raises(PersistenceError, match="which is no class of dotsketch"):
        load(tmp_path / "f")


def test_the_arrays_of_every_class_are_stated():
    """A field that is annotated as an array without a statement could not be saved."""
    for name, cls in known_classes().items():
        stated = stored_fields(cls)
        own = {
            n: a for base in cls.__mro__ for n, a in vars(base).get("__annotations__", {}).items()
        }
        arrays = {n for n, a in own.items() if str(a).startswith("np.ndarray")}
        assert arrays <= set(stated), (name, arrays - set(stated))
        assert not hasattr(cls, "__del__")


# Sketches and maps against their weights


POLYNOMIAL_SKETCHES = {
    name: PolynomialSketch(3, sketch=name, n_components=8, random_state=0).fit(NUMBERS)
    for name in sorted(dotsketch.sketches.SKETCHES)
}
POLYNOMIAL_SKETCHES["compact"] = PolynomialSketch(
    2, n_components=8, compact=16, random_state=0
).fit(NUMBERS)


@pytest.mark.parametrize("name", POLYNOMIAL_SKETCHES)
@pytest.mark.parametrize("field", ["degree", "n_projections", "n_features_in_"])
def test_counts_of_a_sketch_are_those_of_its_weights(name, field, tmp_path):
    """A forged count would allocate the output that it claims."""
    features = POLYNOMIAL_SKETCHES[name]
    save(features, tmp_path / "f")
    load(tmp_path / "f")
    if field == "n_features_in_":
        changes = {field: 4000}
    else:
        small = field == "n_projections" and "tensor_sketch" in name  # has no array of this length
        sketch = changed(features.design_.sketch, **{field: 2 if small else 4000})
        changes = {"design_": changed(features.design_, sketch=sketch)}
    write_changed(tmp_path / "f", features, **changes)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


HASHED = POLYNOMIAL_SKETCHES["tensor_sketch"]
SRHT = POLYNOMIAL_SKETCHES["tensor_srht"]
SERIES = MaclaurinFeatures(Gaussian(), n_components=16, random_state=0).fit(NUMBERS)
FOURIER = FourierFeatures(Gaussian(), n_components=8, random_state=0).fit(NUMBERS)
SORF = FourierFeatures(Gaussian(), n_components=8, projection="sorf", random_state=0).fit(NUMBERS)
POSITIVE = PositiveFeatures(Gaussian(), n_components=8, random_state=0).fit(NUMBERS)
NYSTROM = NystromFeatures(Gaussian(), n_components=5, random_state=0).fit(NUMBERS)
MANY = MOST_COLUMNS + 1
UNUSED = changed(SERIES.design_.allocation, unused=1 << 19)  # columns of zeros
FORGED = [
    (HASHED, {"weights_": HASHED.weights_._replace(buckets=HASHED.weights_.buckets + 8)}),
    (HASHED, {"weights_": HASHED.weights_._replace(buckets=np.full((3, 3), 8, np.int32))}),
    (HASHED, {"weights_": HASHED.weights_._replace(buckets=-1 - HASHED.weights_.buckets)}),
    (HASHED, {"weights_": HASHED.weights_._replace(turns=HASHED.weights_.turns + 9)}),
    (HASHED, {"weights_": HASHED.weights_._replace(turns=[[1]])}),
    (HASHED, {"weights_": SRHT.weights_}),
    *(
        (
            HASHED,
            {"design_": changed(HASHED.design_, sketch=changed(HASHED.design_.sketch, **change))},
        )
        for change in ({"n_projections": MANY}, {"field": "quaternion"}, {"degree": -1})
    ),
    (SRHT, {"design_": changed(SRHT.design_, n_components=4)}),
    (SRHT, {"design_": changed(SRHT.design_, output="complex")}),
    (SRHT, {"weights_": SRHT.weights_._replace(places=SRHT.weights_.places * 0)}),
    (SRHT, {"weights_": SRHT.weights_._replace(turns=SRHT.weights_.turns.astype(float))}),
    (SERIES, {"weights_": SERIES.weights_ * 2}),
    (SERIES, {"weights_": (*SERIES.weights_[:1], HASHED.weights_, *SERIES.weights_[2:])}),
    (SERIES, {"design_": changed(SERIES.design_, n_components=2)}),
    (SERIES, {"design_": changed(SERIES.design_, n_components=MANY)}),
    (SERIES, {"design_": changed(SERIES.design_, allocation=UNUSED)}),
    (SERIES, {"design_": changed(SERIES.design_, dimension=4)}),
    (SERIES, {"design_": FOURIER.design_}),
    (SERIES, {"max_degree": 2**63}),
    (FOURIER, {"design_": changed(FOURIER.design_, n_components=10**6)}),
    (FOURIER, {"weights_": FOURIER.weights_._replace(phase=np.zeros(9))}),
    (SORF, {"design_": changed(SORF.design_, n_components=10**6)}),
    (POSITIVE, {"design_": changed(POSITIVE.design_, n_components=10**6)}),
    (POSITIVE, {"design_": changed(POSITIVE.design_, output="complex_to_real")}),
    (POSITIVE, {"n_jobs": 2**31}),
    (NYSTROM, {"design_": changed(NYSTROM.design_, n_components=10**6)}),
    (NYSTROM, {"weights_": NYSTROM.weights_._replace(normalization=np.eye(4))}),
    (NYSTROM, {"weights_": NYSTROM.weights_._replace(rows=NUMBERS[:-1])}),
]


@pytest.mark.parametrize(
    ("features", "changes"), FORGED, ids=lambda value: str(value)[:60].replace("\n", " ")
)
def test_forged_features_are_refused(features, changes, tmp_path):
    write_changed(tmp_path / "f", features)
    load(tmp_path / "f")
    write_changed(tmp_path / "f", features, **changes)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_features_in_", 4000, "design_ is not one for its inputs"),
        ("weights_", HASHED.weights_._replace(turns=HASHED.weights_.turns[:, :2]), "shape"),
    ],
)
def test_what_load_refuses_is_not_saved(name, value, message, tmp_path):
    features = copy.deepcopy(HASHED)
    setattr(features, name, value)
    with pytest.raises(PersistenceError, match=rf"PolynomialSketch cannot be saved.*{message}"):
        save(features, tmp_path / "f")
    assert not list(tmp_path.iterdir())


ABSTRACT = {"Composite", "DistanceKernel", "DotProductComposite", "DotProductKernel"}
ABSTRACT |= {"ExpandedKernel", "GammaKernel", "LengthscaleKernel"}
ABSTRACT |= {"ForeignKernel"}  # holds a kernel of scikit-learn or a function, which no file may
ABSTRACT |= {"ProductSketch", "SeparableSketch", "TreeSketch"}


def test_every_class_of_the_list_is_fuzzed():
    fuzzed = by_class(subjects())
    abstract = {f"dotsketch.{name}" for name in ABSTRACT}
    missing = set(known_classes()) - abstract - set(fuzzed)
    assert not missing, f"no model of benchmarks/fuzz_subjects.py holds {sorted(missing)}"


@pytest.mark.parametrize("name", ["tensor_sketch", "balanced_tensor_sketch"])
def test_buckets_end_below_the_number_of_projections(name):
    """One more would be a write behind the end of an array of compiled code."""
    features = POLYNOMIAL_SKETCHES[name]
    sketch, weights = features.design_.sketch, features.weights_
    for last, fits in ((sketch.n_projections - 1, True), (sketch.n_projections, False)):
        buckets = np.zeros_like(weights.buckets)
        buckets[-1, -1] = last
        with nullcontext() if fits else pytest.raises(ValueError, match="buckets has values"):
            sketch.check_weights(weights._replace(buckets=buckets), buckets.shape[1])
