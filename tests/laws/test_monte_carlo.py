"""The laws where outcomes are too many to enumerate, by simulation with computed thresholds."""

import pytest

from dotsketch.sketches import SKETCHES, GaussianSketch, make_sketch
from laws.moments import assert_simulated_laws, rows


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(("degree", "D", "d"), [(2, 11, 6), (3, 13, 3)])
@pytest.mark.parametrize("name", SKETCHES)
def test_laws_of_sampled_weights(name, field, degree, D, d):
    assert_simulated_laws(make_sketch(name, degree, D, field), rows(d), n_draws=1000)


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(
    ("degree", "D", "d"), [(1, 5, 3), (2, 5, 3), (3, 2, 3), (4, 9, 5), (5, 16, 3)]
)
@pytest.mark.parametrize("name", ["tree_rademacher", "tree_srht"])
@pytest.mark.parametrize("projects_root", [False, True])
def test_laws_of_trees(name, projects_root, field, degree, D, d):
    """Trees of one level and more, with padding leaves and partial blocks at the nodes."""
    sketch = SKETCHES[name](degree, D, field, projects_root=projects_root)
    assert_simulated_laws(sketch, rows(d), n_draws=1000)


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("name", SKETCHES)
def test_laws_of_compact_compositions(name, field):
    assert_simulated_laws(make_sketch(name, 3, 4, field, compact=2), rows(3), n_draws=800)


@pytest.mark.parametrize("weights", ["circle", 0.2])
def test_laws_of_other_weights(weights):
    sketch = make_sketch("rademacher", 3, 8, "complex", weights=weights)
    assert_simulated_laws(sketch, rows(3), n_draws=1500)


def test_wrong_fourth_moment_fails_the_simulation():
    """A mutant: Gaussian weights with the variance of Rademacher weights."""

    class Mutant(GaussianSketch):
        m4 = 1.0

    with pytest.raises(AssertionError, match="variance"):
        assert_simulated_laws(Mutant(1, 4), rows(1), n_draws=500)


def test_wrong_scale_fails_the_simulation():
    """A mutant: features that are two percent too long."""

    class Mutant(GaussianSketch):
        @property
        def scale(self):
            return 1.02 * super().scale

    with pytest.raises(AssertionError, match="mean"):
        assert_simulated_laws(Mutant(1, 200, "complex"), rows(2), n_draws=1500)
