"""Files made on purpose to crash, to hang or to fill the memory: they are refused before that."""

import copy
import importlib
import inspect
import json
import pkgutil
import zipfile

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)

import dotsketch
from attacks.forging import changed, write, write_changed, write_tree
from benchmarks.fuzz_subjects import by_class, subjects
from dotsketch import (
    ExactGPClassifier,
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
from dotsketch.features import FeatureMap
from dotsketch.kernels import Kernel
from dotsketch.persistence import classes as tables
from dotsketch.persistence import container, shapes, weight_checks
from dotsketch.persistence.registry import Registry, is_named_tuple
from dotsketch.sketches.base import Sketch

COLORS = np.array([["red"], ["green"], ["blue"]], dtype=object)
NUMBERS = np.linspace(0, 1, 30).reshape(10, 3)


ENCODER = OneHotEncoder().fit(COLORS)
GROUPED = OneHotEncoder(max_categories=2).fit(COLORS)
BINS = KBinsDiscretizer(n_bins=3).fit(NUMBERS)
POWERS = PolynomialFeatures(2).fit(NUMBERS)
UNSCALED = StandardScaler(with_mean=False, with_std=False).fit(NUMBERS)
POWER = PowerTransformer().fit(NUMBERS)
JOINED = ColumnTransformer([("numbers", StandardScaler(), [0])]).fit(NUMBERS)


@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        (ENCODER, {"categories_": []}),
        (ENCODER, {"categories_": [np.array([["red"]], dtype=object)]}),
        (ENCODER, {"categories_": [["red", "green"]]}),
        (ENCODER, {"categories_": [np.array([3.0, 1.0, 2.0])]}),
        (ENCODER, {"n_features_in_": 2}),
        (ENCODER, {"drop_idx_": np.array([7], dtype=object)}),
        (GROUPED, {"_infrequent_indices": [np.array([0, 9])]}),
        (GROUPED, {"_default_to_infrequent_mappings": [np.array([0, 1, 1 << 40])]}),
        (GROUPED, {"_default_to_infrequent_mappings": [np.array([0, 1])]}),
        (BINS, {"_encoder": ENCODER}),
        (BINS, {"_encoder": OneHotEncoder()}),
        (BINS, {"n_bins_": np.array([3, 3, 9])}),
        (BINS, {"bin_edges_": BINS.bin_edges_[:2]}),
        (POWERS, {"_max_degree": 2**62}),
        (POWERS, {"n_features_in_": 2**20}),
        (POWERS, {"n_features_in_": 1000}),  # the table of powers: four gigabytes
        (Binarizer().fit(NUMBERS), {"n_features_in_": 2**31 - 1}),
        (MissingIndicator().fit(NUMBERS), {"n_features_in_": 2**31 - 1}),
        (UNSCALED, {"n_features_in_": 2**31 - 1}),  # it has a number of rows, and no array
        (POWER, {"n_features_in_": 2**31 - 1, "lambdas_": 65536}),
        (Polynomial(degree=3), {"degree": 2**63}),
        (JOINED, {"n_jobs": 500}),
        (FourierFeatures(Gaussian()), {"n_jobs": 500}),
    ],
    ids=lambda value: str(value)[:50].replace("\n", " "),
)
def test_forged_attributes_are_refused(estimator, changes, tmp_path):
    write_changed(tmp_path / "f", estimator)
    load(tmp_path / "f")
    write_changed(tmp_path / "f", estimator, **changes)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


def test_the_columns_of_an_encoder_are_counted_and_not_read(tmp_path):
    """scikit-learn allocates by `_n_features_outs` and writes by `categories_`."""
    write_changed(tmp_path / "f", ENCODER, _n_features_outs=[1])
    again = load(tmp_path / "f")
    assert again._n_features_outs == [3]
    np.testing.assert_array_equal(
        again.transform(COLORS).toarray(), ENCODER.transform(COLORS).toarray()
    )


def test_the_columns_of_powers_are_counted_and_not_read(tmp_path):
    write_changed(tmp_path / "f", POWERS, n_output_features_=1, _n_out_full=1)
    again = load(tmp_path / "f")
    np.testing.assert_array_equal(again.transform(NUMBERS), POWERS.transform(NUMBERS))


def test_a_tree_of_many_values_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    """A list of two bytes takes 56 in memory."""
    bound = 1000
    text = json.dumps({"versions": {}, "value": [[]] * (2 * bound), "classes": []}).encode()
    monkeypatch.setattr(container, "MAX_NODES", 10 * bound)
    container.write(tmp_path / "f", json.loads(text), [])
    monkeypatch.setattr(container, "MAX_NODES", bound)
    parsed = []
    monkeypatch.setattr(container.json, "loads", lambda *args, **kwargs: parsed.append(args))
    with pytest.raises(PersistenceError, match="values, more than"):
        load(tmp_path / "f")
    assert not parsed


def test_the_names_of_the_members_are_listed_once_however_many_arrays(tmp_path, monkeypatch):
    """One search of a list per array would be quadratic."""
    calls = []
    original = zipfile.ZipFile.namelist
    monkeypatch.setattr(zipfile.ZipFile, "namelist", lambda z: calls.append(1) or original(z))
    found = []
    for count in (1, 50):
        write(tmp_path / "f", [np.zeros(1) for _ in range(count)])
        calls.clear()
        load(tmp_path / "f")
        found.append(len(calls))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["dict", "set", "frozenset"])
def test_keys_that_collide_are_refused(kind, tmp_path):
    """Multiples of 2⁶¹ − 1 all have the hash 0: each is compared with all before it."""
    keys = [n * (2**61 - 1) for n in range(100)]
    assert len({hash(key) for key in keys}) == 1
    items = [[key, 1] for key in keys] if kind == "dict" else keys
    write_tree(tmp_path / "f", {"kind": kind, "items": items})
    with pytest.raises(PersistenceError, match="collide"):
        load(tmp_path / "f")


@pytest.mark.parametrize("name", ["n_output_features_", "_min_degree", "_max_degree"])
def test_powers_that_are_fitted_in_part_are_refused(name, tmp_path):
    """Without its number of columns, their names would be made from the inputs alone."""
    powers = copy.deepcopy(POWERS)
    delattr(powers, name)
    write_changed(tmp_path / "f", powers, n_features_in_=2**16)
    with pytest.raises(PersistenceError, match=f"PolynomialFeatures has no {name}"):
        load(tmp_path / "f")
    save(PolynomialFeatures(2), tmp_path / "g")
    assert load(tmp_path / "g").degree == 2


def test_draws_that_a_file_asks_for_are_bounded(tmp_path):
    """A prediction makes all of them at once: 2³¹ for three classes are 48 GiB."""
    model = ExactGPClassifier(Gaussian(lengthscale=1.0), n_samples=1 << 14)
    save(model, tmp_path / "f")
    assert load(tmp_path / "f").n_samples == 1 << 14
    write_changed(tmp_path / "f", model, n_samples=2**31 - 1)
    with pytest.raises(PersistenceError, match="n_samples is 2147483647, beyond 16384"):
        load(tmp_path / "f")


def test_a_class_of_the_caller_is_not_checked(tmp_path):
    write_changed(tmp_path / "f", Gaussian(), extra=2**60)
    with pytest.raises(PersistenceError, match="beyond"):
        load(tmp_path / "f")
    assert load(tmp_path / "f", classes=(Gaussian,)).extra == 2**60


# The list of classes


def own_classes():
    """All classes of dotsketch by name."""
    found = {}
    for info in pkgutil.walk_packages(dotsketch.__path__, "dotsketch."):
        # modules of other libraries (nn, gpytorch) hold nothing that a file may hold
        if info.name.split(".")[1] not in ("cli", "nn", "gpytorch") and ".cpp" not in info.name:
            module = importlib.import_module(info.name)
            for cls in vars(module).values():
                if inspect.isclass(cls) and cls.__module__ == info.name:
                    found[cls.__name__] = cls
    return found


def test_every_class_of_the_list_has_a_check():
    classes = own_classes()
    assert set(tables.OWN) <= set(classes), "a line for a class that is no more"
    for name in Registry().classes:
        package, _, short = name.partition(".")
        assert short in (tables.SCIKIT_LEARN if package == "sklearn" else tables.OWN)
    assert not [name for name in tables.OWN if hasattr(classes[name], "__del__")]


def test_every_class_that_an_estimator_holds_is_in_the_list():
    abstract = {"DistanceKernel", "DotProductKernel", "ExpandedKernel", "GammaKernel"}
    abstract |= {"CompositeKernel", "DotProductComposite", "LengthscaleKernel"}
    abstract |= {"ProductSketch", "SeparableSketch", "TreeSketch", "FrequencyFeatures"}
    bases = (Kernel, FeatureMap, Sketch)
    expected = {
        name
        for name, cls in own_classes().items()
        if (issubclass(cls, bases) and cls not in bases)
        or (is_named_tuple(cls) and name.endswith(("Weights", "Frequencies")))
    }
    assert expected - abstract <= set(tables.OWN)
    assert {c.__name__ for c in dotsketch.sketches.SKETCHES.values()} <= set(weight_checks.SKETCHES)


@pytest.mark.parametrize(
    "name", ["AllocationSearch", "PairBlock", "Solver", "Sketch", "Rows", "CountTable"]
)
def test_helpers_and_abstract_classes_are_not_in_the_list(name, tmp_path):
    assert name in own_classes()
    write_tree(tmp_path / "f", {"kind": "object", "class": f"dotsketch.{name}", "state": {}})
    with pytest.raises(PersistenceError, match="which is no class of dotsketch"):
        load(tmp_path / "f")


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
MANY = shapes.MAX_COLUMNS + 1
FORGED = [
    (HASHED, {"weights_": HASHED.weights_._replace(buckets=HASHED.weights_.buckets + 8)}),
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
    (SRHT, {"weights_": SRHT.weights_._replace(places=SRHT.weights_.places * 0)}),
    (SRHT, {"weights_": SRHT.weights_._replace(turns=SRHT.weights_.turns.astype(float))}),
    (SERIES, {"weights_": SERIES.weights_ * 2}),
    (SERIES, {"weights_": (*SERIES.weights_[:1], HASHED.weights_, *SERIES.weights_[2:])}),
    (SERIES, {"design_": changed(SERIES.design_, n_components=2)}),
    (SERIES, {"allocation": [1, 2**60]}),
    (SERIES, {"max_degree": 2**63}),
    (FOURIER, {"design_": changed(FOURIER.design_, n_components=10**6)}),
    (FOURIER, {"weights_": FOURIER.weights_._replace(phase=np.zeros(9))}),
    (SORF, {"design_": changed(SORF.design_, n_components=10**6)}),
    (POSITIVE, {"design_": changed(POSITIVE.design_, n_components=10**6)}),
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


def test_what_load_refuses_is_not_saved(tmp_path):
    features = copy.deepcopy(HASHED)
    features.n_features_in_ = 4000
    with pytest.raises(PersistenceError, match=r"PolynomialSketch cannot be saved.*shape"):
        save(features, tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_every_class_of_the_list_is_fuzzed():
    fuzzed = by_class(subjects())
    assert set(Registry().classes) <= set(fuzzed)
