"""A file gives back the estimator that was saved, or is refused; it never acts."""

import inspect
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler

from attacks.forging import Encoder, known_classes, obj, state_of, write_tree
from benchmarks.fuzz_subjects import subjects
from dotsketch import (
    Exponential,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    PersistenceError,
    load,
    plan,
    save,
)
from dotsketch.persistence import FORMAT, read_info
from dotsketch.persistence.values import Decoder
from rounding import assert_same_to_rounding

RNG = np.random.default_rng(0)
X = RNG.random((60, 5)) / 5**0.5
Y = X.sum(axis=1) + 0.1 * RNG.normal(size=60)


KNOWN = set(known_classes().values())


def same(a, b, where="value"):
    """Raise unless two values have the same types, shapes and bits, all the way down."""
    assert type(a) is type(b), f"{where}: {type(a)} and {type(b)}"
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        assert a.flags.f_contiguous == b.flags.f_contiguous, f"{where}: order in memory"
        if a.dtype == object:
            same(a.ravel().tolist(), b.ravel().tolist(), where)
        else:
            assert a.tobytes() == b.tobytes(), where
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    elif isinstance(a, dict):
        same(list(a.items()), list(b.items()), where)
    elif isinstance(a, np.random.RandomState):
        same(a.get_state(legacy=False), b.get_state(legacy=False), where)
    elif isinstance(a, np.random.Generator):
        same(a.bit_generator.state, b.bit_generator.state, where)
        assert a.bit_generator.seed_seq.state == b.bit_generator.seed_seq.state
    elif type(a) in KNOWN:
        same(state_of(a), state_of(b), where)
    else:
        assert repr(a) == repr(b), where  # nan is itself


def answers(estimator, X):
    """Everything that a fitted estimator says of X."""
    found = {}
    for name in ("transform", "predict", "predict_proba", "decision_function", "__call__"):
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)(X)
    if "predict" in found and "return_std" in inspect.signature(estimator.predict).parameters:
        found["std"] = estimator.predict(X, return_std=True)
    return {k: v.toarray() if hasattr(v, "toarray") else v for k, v in found.items()}


def assert_same_answer(before, after):
    """Equal fitted values give equal answers, but for the rounding of what BLAS computes."""
    if isinstance(before, tuple):
        assert_same_to_rounding(after[0], before[0])
        # A variance is a difference of values of about 1, whose root divides roundings by the
        # deviation
        deviation = before[1]
        condition = max(1.0, 1 / (deviation.min() * deviation.max()))
        assert_same_to_rounding(after[1], deviation, condition=condition)
    elif np.asarray(before).dtype.kind in "fc":
        assert_same_to_rounding(after, before)
    else:
        same(before, after)


def check_round_trip(estimator, path, X=X):
    save(estimator, path)
    again = load(path)
    same(estimator, again)
    before, after = answers(estimator, X), answers(again, X)
    assert before or isinstance(estimator, list), "the estimator says nothing of X"
    for name, value in before.items():
        assert_same_answer(value, after[name])
    return again


SMALL = {"n_components": 16, "random_state": 0}


def features():
    return MaclaurinFeatures(Gaussian(), **SMALL)


@pytest.mark.parametrize(
    ("estimator", "rows"), subjects(), ids=lambda e: str(e)[:40].split("\n")[0]
)
def test_every_class_round_trips(estimator, rows, tmp_path):
    """The subjects hold every class that a file may hold, fitted; clones of them are unfitted."""
    check_round_trip(estimator, tmp_path / "model", rows)
    if hasattr(estimator, "get_params"):
        save(clone(estimator), tmp_path / "model")
        same(clone(estimator), load(tmp_path / "model"))


GENERATORS = [
    np.random.RandomState(3),
    np.random.default_rng(3),
    np.random.default_rng(np.random.SeedSequence([2**70, 3]).spawn(2)[1]),
]


@pytest.mark.parametrize("generator", GENERATORS, ids=str)
def test_generators_go_on_where_they_were(generator, tmp_path):
    estimator = features().set_params(random_state=generator, n_jobs=2).fit(X)
    again = check_round_trip(estimator, tmp_path / "model")
    assert_same_answer(estimator.fit(X).transform(X), again.fit(X).transform(X))


def test_plans_and_collections_round_trip(tmp_path):
    value = {
        "plan": plan(Gaussian(), X, n_components=16),
        3: (1, -0.0, float("nan"), float("-inf"), None, True, "ß\ud800", 10**40),
        (1, 2): {"nested": [{}]},
        "scalars": [np.float32(0.1), np.int8(-3), np.complex64(1 + 2j), np.bool_(True)],
        "strings": np.array(["a", "bcd"]),
        "objects": np.array([["a", None], [1.5, "x"]], dtype=object),
        "orders": [np.asfortranarray(X), X[:0], np.array(3.0), X.astype(np.float16)],
    }
    save(value, tmp_path / "model")
    same(value, load(tmp_path / "model"))


def test_one_array_is_stored_once_and_can_be_written_to(tmp_path):
    save([X, X, {"again": X}], tmp_path / "model")
    a, b, c = load(tmp_path / "model")
    assert a is b is c["again"]
    a[0, 0] = 5.0
    with zipfile.ZipFile(tmp_path / "model") as archive:
        assert archive.namelist() == ["model.json", "arrays/0.npy"]


# Estimators of scikit-learn


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (MinMaxScaler(), "MinMaxScaler"),
        (Ridge(), "Ridge"),
        (OneHotEncoder(), "OneHotEncoder"),
        (make_pipeline(StandardScaler(), memory="folder"), "memory"),
    ],
    ids=str,
)
def test_other_estimators_of_scikit_learn_are_not_saved(estimator, message, tmp_path):
    with pytest.raises(PersistenceError, match=message):
        save(estimator.fit(np.round(4 * X), Y), tmp_path / "model")
    if isinstance(estimator, MinMaxScaler):
        save(estimator, tmp_path / "model", classes=[MinMaxScaler])
        again = load(tmp_path / "model", classes=[MinMaxScaler])
        np.testing.assert_array_equal(again.transform(X), estimator.transform(X))


def test_names_of_columns_round_trip(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    estimator = make_pipeline(StandardScaler(), features().set_output(transform="pandas"))
    estimator.fit(frame).facts_ = {"target": "price", "rows": 60}
    save(estimator, tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(estimator.transform(frame), again.transform(frame))
    assert list(again.feature_names_in_) == list(frame)
    assert again.facts_ == estimator.facts_


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_landmarks_round_trip(make, tmp_path):
    rows = make(np.where(np.arange(300).reshape(60, 5) % 13, 0.0, X))
    estimator = NystromFeatures(Gaussian(lengthscale=1.0), n_components=8, random_state=0).fit(rows)
    save(estimator, tmp_path / "model")
    again = load(tmp_path / "model")
    same(estimator.weights_.rows, again.weights_.rows)
    assert_same_answer(again.transform(rows), estimator.transform(rows))


def test_parameters_of_torch_become_numbers(tmp_path):
    lengthscale = torch.tensor(0.75, dtype=torch.float64, requires_grad=True)
    estimator = MaclaurinFeatures(Gaussian(lengthscale=lengthscale), **SMALL).fit(X)
    save(estimator, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kernel_.lengthscale == 0.75
    before, after = (e.transform(torch.from_numpy(X)) for e in (estimator, again))
    torch.testing.assert_close(after, before.detach(), rtol=1e-12, atol=1e-14)


class OwnKernel(Exponential):
    """A kernel that is not ours."""


def test_classes_of_the_caller_have_to_be_given(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(PersistenceError, match=r"OwnKernel.*classes"):
        save(OwnKernel(), path)
    save(OwnKernel(), path, classes=[OwnKernel])
    with pytest.raises(PersistenceError, match=r"OwnKernel.*classes"):
        load(path)
    assert type(load(path, classes=[OwnKernel])) is OwnKernel


# What cannot be saved

ITSELF = []
ITSELF.append(ITSELF)
HIDING = features().fit(X)
HIDING.transform = 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, "function"),
        (FunctionTransformer(np.log1p), "FunctionTransformer"),
        (StandardScaler(with_mean=print), "with_mean"),
        (
            make_pipeline(features().set_params(kernel=print)),
            r"steps\[0\]\[1\]\.kernel is a builtin",
        ),
        (ITSELF, "refers to itself"),
        (HIDING, "transform"),
        ({1, 2}, "set"),
        (2.5j, "complex"),
        (np.float64, "type"),
        (np.datetime64("2020-01-01"), "datetime64"),
        (np.zeros(2, dtype=[("a", "f8")]), "dtype"),
        (np.zeros(2, dtype=np.longdouble), "dtype"),
        (np.ma.masked_array([1.0], mask=[True]), "MaskedArray"),
        (scipy.sparse.coo_array(np.eye(2)), "coo_array"),
        (scipy.sparse.csr_array(np.eye(2, dtype=np.longdouble)), "dtype"),
        (np.random.Generator(np.random.Philox(0)), "default_rng"),
        (np.random.RandomState(np.random.PCG64(0)), "MT19937"),
        (os, "module"),
        (ValueError("x"), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_has_no_plain_form_is_refused(value, message, tmp_path):
    with pytest.raises(PersistenceError, match=message):
        save([value], tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# Files


@pytest.mark.parametrize("make", [str, Path, lambda path: path], ids=["str", "Path", "as is"])
def test_kinds_of_paths(make, tmp_path):
    path = make(tmp_path / "mödel name.bin")
    save(Gaussian(lengthscale=2.0), path)
    save(Gaussian(lengthscale=3.0), path)  # over the older one
    assert load(path) == Gaussian(lengthscale=3.0)
    assert [p.name for p in tmp_path.iterdir()] == ["mödel name.bin"]


def test_the_same_estimator_gives_the_same_bytes(tmp_path):
    estimator = features().fit(X)
    for name in "ab":
        save(estimator, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_link_is_followed(tmp_path):
    save(Gaussian(lengthscale=1.0), tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(Gaussian(lengthscale=2.0), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real") == Gaussian(lengthscale=2.0)


@pytest.mark.parametrize("part", ["write_array", "fsync", "replace"])
def test_a_failing_save_leaves_the_older_file(part, tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(Gaussian(lengthscale=2.0), path)
    before = path.read_bytes()

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    place = np.lib.format if part == "write_array" else os
    monkeypatch.setattr(place, part, fail)
    with pytest.raises(OSError, match="No space left"):
        save(features().fit(X), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_paths_that_cannot_be_written_or_read(tmp_path):
    (tmp_path / "file").touch()
    for path, error in (
        (tmp_path / "missing" / "model", FileNotFoundError),
        (tmp_path / "file" / "model", NotADirectoryError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(error) as caught:
            save(Gaussian(), path)
        assert path == tmp_path or str(path) in str(caught.value)
        with pytest.raises(error):
            load(path)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"regular file.*pipe"):
        save(Gaussian(), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_info_tells_what_is_inside(tmp_path):
    path = tmp_path / "model"
    save(make_pipeline(StandardScaler(), features()).fit(X), path)
    info = read_info(path)
    assert (info["format"], info["size"]) == (FORMAT, path.stat().st_size)
    assert {"sklearn.StandardScaler", "dotsketch.MaclaurinFeatures"} <= set(info["classes"])
    assert info["versions"]["numpy"] == np.__version__


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | hnp.arrays(
        hnp.scalar_dtypes().filter(
            lambda d: d.kind in "biufc" and d.itemsize <= 16 and d.str[1:] not in ("f16", "f12")
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=PLAIN)
@settings(max_examples=150, deadline=None)
def test_plain_values_round_trip(value):
    known = known_classes()
    encoder = Encoder(known)
    tree = json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False))
    arrays = [np.array(a, dtype=a.dtype.newbyteorder("="), order="K") for a in encoder.arrays]
    decoded = Decoder(known, arrays.__getitem__).decode(tree)
    again = Encoder(known)
    assert again.encode(decoded, "value") == encoder.encode(value, "value")
    for a, b in zip(encoder.arrays, again.arrays, strict=True):
        np.testing.assert_array_equal(a, b, strict=False)


# The list of classes


def test_names_of_classes_are_unique_and_nothing_is_imported(tmp_path):
    with pytest.raises(PersistenceError, match="Two classes"):
        save(1, tmp_path / "f", classes=[type("Gaussian", (), {"__module__": "dotsketch.other"})])
    write_tree(tmp_path / "f", obj("antigravity.Flight"))
    with pytest.raises(PersistenceError, match="antigravity"):
        load(tmp_path / "f")
    assert "antigravity" not in sys.modules
