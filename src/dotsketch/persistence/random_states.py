"""Random generators as plain values, so that a refit of a loaded estimator is that of the saved.

Two bit generators are known, those of `RandomState` and of `default_rng`. Their counters index
memory inside NumPy, which does not check all of them: they are checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import PersistenceError

WORDS = 624  # of the state of the Mersenne twister


def random_state_state(value: np.random.RandomState, where: str) -> dict[str, Any]:
    state: Any = value.get_state(legacy=False)
    if not isinstance(state, dict) or state["bit_generator"] != "MT19937":
        raise PersistenceError(f"{where} is a RandomState of another bit generator than MT19937.")
    return state


def random_state_of(state: Any) -> np.random.RandomState:
    twister = state["state"]
    key, position = twister["key"], twister["pos"]
    if key.shape != (WORDS,) or key.dtype != np.uint32 or not 0 <= position <= WORDS:
        raise PersistenceError("A RandomState in the file has no valid state.")
    result = np.random.RandomState()
    result.set_state(state)
    return result


def generator_state(value: np.random.Generator, where: str) -> dict[str, Any]:
    """The state, and that of the sequence of seeds, from which `spawn` draws."""
    seeds = value.bit_generator.seed_seq
    if (
        type(value.bit_generator) is not np.random.PCG64
        or type(seeds) is not np.random.SeedSequence
    ):
        raise PersistenceError(f"{where} is a Generator that default_rng does not make.")
    return {
        "state": value.bit_generator.state,
        "entropy": seeds.entropy,
        "spawn_key": list(seeds.spawn_key),
        "pool_size": seeds.pool_size,
        "n_children_spawned": seeds.n_children_spawned,
    }


def generator_of(state: Any) -> np.random.Generator:
    if not 4 <= state["pool_size"] <= 64:
        raise PersistenceError("A Generator in the file has no valid state.")
    seeds = np.random.SeedSequence(
        state["entropy"],
        spawn_key=state["spawn_key"],
        pool_size=state["pool_size"],
        n_children_spawned=state["n_children_spawned"],
    )
    bits = np.random.PCG64(seeds)
    bits.state = state["state"]
    return np.random.Generator(bits)
