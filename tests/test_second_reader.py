"""The format is specified: a reader that knows the specification alone recovers every array."""

import math
import zipfile

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import second_reader
from attacks.forging import state_of
from dotsketch import Gaussian, NystromFeatures, PolynomialSketch, save
from second_reader import Array, Refused

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))


def same(read, value):
    """Whether what the second reader found is the value, attribute by attribute."""
    if isinstance(read, Array):
        array = np.frombuffer(read.data, dtype=read.descr).reshape(
            read.shape, order="F" if read.fortran else "C"
        )
        return np.array_equal(array, value, equal_nan=array.dtype.kind in "fc")
    if isinstance(value, dict):
        return list(read) == list(value) and all(same(read[key], value[key]) for key in value)
    if type(value) in (list, tuple):
        return len(read) == len(value) and all(map(same, read, value))
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(read)
    if isinstance(value, (type(None), bool, int, float, complex, str)):
        return read == value and type(read) is type(value)
    if isinstance(read, tuple) and isinstance(read[1], dict):
        name, attributes = read
        return name.endswith(f".{type(value).__name__}") and same(attributes, state_of(value))
    return isinstance(read, tuple) and read[0] in second_reader.KEYS  # a type, a generator


MODELS = {
    "sketch": lambda: PolynomialSketch(3, n_components=8, random_state=0).fit(X),
    "pipeline": lambda: make_pipeline(
        StandardScaler(), NystromFeatures(Gaussian(), n_components=10, random_state=0)
    ).fit(X),
    "values": lambda: [1, 2.5, math.nan, "text", None, True, {"a": (1, X)}, np.float32(2)],
    "order": lambda: [np.asfortranarray(X), np.arange(6, dtype=np.int8), np.array(["a", "bc"])],
}


@pytest.mark.parametrize("name", MODELS)
def test_every_array_of_a_model_is_recovered(name, tmp_path):
    model = MODELS[name]()
    save(model, tmp_path / "model")
    head, value = second_reader.read(tmp_path / "model")
    assert same(value, model)
    assert "dotsketch" in head["versions"]
    with zipfile.ZipFile(tmp_path / "model") as archive:  # an ordinary zip as well
        assert archive.namelist()[0] == "model.json"


def test_another_value_is_not_the_same(tmp_path):
    model = MODELS["pipeline"]()
    save(model, tmp_path / "model")
    _, value = second_reader.read(tmp_path / "model")
    model[0].mean_[0] += 1e-9
    assert not same(value, model)


def test_damage_is_refused(tmp_path):
    save(X, tmp_path / "model")
    data = bytearray((tmp_path / "model").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model").write_bytes(data)
    with pytest.raises(Refused):
        second_reader.read(tmp_path / "model")
