"""
Molecules: the Tanimoto kernel
==============================

Find good molecules among 40,000, with few measurements.

Molecules are compared by their fingerprints: sparse rows of counts of substructures. Features of
the Tanimoto kernel turn them into a Gaussian process with uncertainties, whose cost is linear in
the number of molecules; Thompson sampling then asks for the next measurements.

``python examples/molecules.py FILE`` reads a file of SMILES, one per line (this needs RDKit; the
target is the drug-likeness QED), or an archive of NumPy with the arrays ``data``, ``indices``,
``indptr`` and ``shape`` of a CSR matrix and a target ``y`` or ``qed``. Without a file, molecules
are made up: sets of fragments, some of which are good.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

from dotsketch import FeatureGPRegressor, MaclaurinFeatures, Tanimoto

N_MOLECULES, ROUNDS, BATCH = 40_000, 5, 50
COLUMNS = 512


def made_up(n, rng):
    """Each molecule has about ten of 300 fragments, and a fragment sets eight bits of 1,024."""
    popularity = rng.dirichlet(np.full(300, 0.3))
    has = (rng.random((n, 300)) < 10 * popularity).astype(float)
    has[np.arange(n), rng.integers(0, 300, n)] = 1.0  # no molecule is empty
    has = scipy.sparse.csr_array(has)
    bits = np.zeros((300, 1024))
    bits[np.arange(300)[:, None], rng.integers(0, 1024, (300, 8))] = 1
    return scipy.sparse.csr_array(has @ scipy.sparse.csr_array(bits)), has @ rng.normal(size=300)


def from_smiles(path):
    """Morgan count fingerprints of 2,048 columns, and QED."""
    from rdkit import Chem
    from rdkit.Chem import QED, rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    with open(path) as file:
        found = [Chem.MolFromSmiles(line.split()[0]) for line in file if line.strip()]
    molecules = [molecule for molecule in found if molecule is not None]
    rows = [generator.GetCountFingerprintAsNumPy(molecule) for molecule in molecules]
    X = scipy.sparse.csr_array(np.array(rows, dtype=np.float32))
    return X, np.array([QED.qed(molecule) for molecule in molecules])


def from_archive(path):
    with np.load(path) as file:
        arrays = file["data"].astype(np.float32), file["indices"].astype(np.int32), file["indptr"]
        X = scipy.sparse.csr_array(arrays, shape=tuple(file["shape"]))
        return X, np.asarray(file["qed" if "qed" in file else "y"], dtype=float)


rng = np.random.default_rng(0)
if len(sys.argv) > 1:
    X, y = (from_archive if sys.argv[1].endswith(".npz") else from_smiles)(sys.argv[1])
else:
    X, y = made_up(N_MOLECULES, rng)
print(f"{X.shape[0]} molecules, {X.shape[1]} columns, {X.nnz / X.shape[0]:.0f} entries per row")

# A Gaussian process with uncertainties, from a thousand measurements
train, test = np.split(rng.permutation(len(y))[:2000], [1000])
features = MaclaurinFeatures(
    Tanimoto(),
    sketch="balanced_tensor_sketch",
    mean_split=True,
    n_components=COLUMNS,
    random_state=0,
)
gp = FeatureGPRegressor(features).fit(X[train], y[train])
mean, deviation = gp.predict(X[test], return_std=True, include_noise=True)
error = np.sqrt(np.mean((mean - y[test]) ** 2)) / y[test].std()
inside = np.mean(np.abs(mean - y[test]) < 1.96 * deviation)
print(f"RMSE {error:.2f} of the standard deviation; 95 % intervals hold {inside:.0%}")
print(f"predicted error of the kernel: {gp.features_.expected_relative_error_:.3f}")

# Thompson sampling: each round measures the best molecule of every function that is drawn
best = np.sort(y)[::-1]
progress = [0]
known = rng.permutation(len(y))[:100]
print("round  measured  best so far   its rank  of the best 100")
for step in range(ROUNDS):
    gp = FeatureGPRegressor(features).fit(X[known], y[known])
    values = gp.sample_functions(BATCH, random_state=step)(X)
    values[known] = -np.inf
    known = np.union1d(known, np.argmax(values, axis=0))
    rank = int(np.sum(best > y[known].max())) + 1
    found = int(np.sum(y[known] >= best[99]))
    progress.append(found)
    print(f"{step + 1:5d} {len(known):9d} {y[known].max():12.3f} {rank:10d} {found:16d}")
chance = 100 * len(known) / len(y)
print(f"{len(known)} random molecules have {chance:.1f} of the best 100 on average")

figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
panels[0].errorbar(y[test], mean, 1.96 * deviation, fmt=".", markersize=3, elinewidth=0.2)
panels[0].axline((y[test].mean(), y[test].mean()), slope=1, color="gray", lw=0.8)
panels[0].set(xlabel="measured", ylabel="predicted, with 95 % interval")
panels[1].plot(progress, "o-")
panels[1].set(xlabel="round", ylabel="found of the best 100")
