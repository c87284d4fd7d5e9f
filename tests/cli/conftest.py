"""A small table of houses, and the command."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dotsketch.cli.main import main


def make_houses(n, seed=0):
    """Prices of made-up houses, numeric and categorical columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.gamma(4, 25, n).round(1),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["Bern", "Basel", "Genève"], n),
        }
    )
    value = 50 * frame["size"] ** 0.8 * (1 + 0.3 * (frame["town"] == "Genève"))
    frame["price"] = (value + 20 * rng.normal(size=n)).round(2)
    frame["sold"] = np.where(frame["price"] + 50 * rng.normal(size=n) > 1800, "yes", "no")
    return frame


@pytest.fixture(scope="session")
def houses():
    return make_houses(300)


@pytest.fixture
def folder(tmp_path, houses, monkeypatch):
    """The working folder: houses.csv to fit to, new.csv to predict."""
    houses.head(240).to_csv(tmp_path / "houses.csv", index=False)
    houses.tail(60).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOTSKETCH_DATA", raising=False)
    return tmp_path


@pytest.fixture
def run():
    """Run the command; it must succeed."""

    def call(*words, code=0):
        result = CliRunner().invoke(main, list(words))
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


FAST = ("--components", "40", "--kernel", "gaussian:3", "--features", "fourier")


def run_in(folder, rows, command, target, *words):
    """What a command says of the rows as houses.csv in a folder."""
    rows.to_csv(folder / "houses.csv", index=False)
    other = "sold" if target == "price" else "price"
    words = [command, "houses.csv", "--target", target, "--ignore", other, *words, "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="session", params=["price"])
def fitted(request, houses, tmp_path_factory):
    """A model file of houses.csv for the target of the parameter, and what `fit` says of it."""
    folder = tmp_path_factory.mktemp("fitted")
    known = run_in(folder, houses.head(240), "fit", request.param, *FAST, "-o", "a.model")
    return (folder / "a.model").read_bytes(), known


@pytest.fixture
def model(folder, fitted):
    """What `fit` says of the model a.model in the folder."""
    (folder / "a.model").write_bytes(fitted[0])
    return fitted[1]


@pytest.fixture
def run_json(run):
    return lambda *words: json.loads(run(*words, "--json").stdout)


@pytest.fixture
def fails(run):
    """Run the command, which must end with exit code 2 and one line of cause; the line."""

    def call(*words):
        result = run(*words, code=2)
        lines = [line for line in result.stderr.splitlines() if line.startswith("dotsketch: error")]
        assert len(lines) == 1
        assert result.stderr.endswith(lines[0] + "\n")
        assert result.stdout == ""
        return lines[0]

    return call
