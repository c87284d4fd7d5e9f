"""The classes that a file may hold, and the arrays that each of them has (`shapes`).

A class that stands in neither table is neither saved nor loaded, and an array under a name that
does not stand beside its class is refused. The letter `d` is `n_features_in_`.
"""

from __future__ import annotations

from .shapes import Arrays


def without_arrays(names: str) -> dict[str, Arrays]:
    return {name: {} for name in names.split()}


LABELS = "iufbOUS: c"
CLASSES: Arrays = {"classes_": LABELS, "class_weights_": "f: c", "frequencies_": "f: c"}
SCALES: Arrays = {"means_": "f: k", "scales_": "f: k"}
OWN: dict[str, Arrays] = {
    **without_arrays("ArcCosine Exponential Gaussian Maclaurin Matern Polynomial Tanimoto"),
    **without_arrays("DotProductProduct DotProductSum Product Sum"),
    # feature maps
    **without_arrays("AutoFeatures FourierFeatures MaclaurinFeatures NystromFeatures"),
    **without_arrays("PolynomialSketch PositiveFeatures SphericalFeatures"),
    **without_arrays("FourierDesign MaclaurinDesign PolynomialDesign SphericalDesign"),
    "NystromDesign": {"landmarks": "f: m d"},
    "PositiveDesign": {"centre": "f: d"},
    # sketches and weights
    **without_arrays("BalancedTensorSketch CompactSketch GaussianSketch MonomialSketch"),
    **without_arrays("RademacherSketch RademacherTree SRHTTree TensorSRHT TensorSketch"),
    **without_arrays("CompactWeights TreeWeights"),
    "AngleWeights": {"angles": "f: p D d"},
    "Basis": {
        "rows": "f: m d",
        "indices": "iu: m",
        "normalization": "f: m D",
    },
    "DenseFrequencies": {"matrix": "f: D d"},
    "GaussianWeights": {"values": "f: p r D d"},
    "HashWeights": {"buckets": "i: p d", "turns": "i: p d: 0 to 3"},
    "MonomialWeights": {"factor": "f: m"},
    "SRHTWeights": {"turns": "i: p b d: 0 to 3", "places": "i: p b d"},
    "StructuredFrequencies": {"signs": "i: b 3 d: -1 to 1", "scales": "f: D"},
    "TurnWeights": {"turns": "i: p D d: 0 to 3"},
    "WaveWeights": {"phase": "f: 0 | 1"},
    # expansions, allocations and plans
    **without_arrays("BestPossible ComplexAdvantage Plan PlannedCandidate"),
    "Allocation": {
        "degrees": "iu: b",
        "projections": "iu: b",
        "coefficients": "f: b",
        "exact": "b: b",
        "variances": "f: b",
    },
    "EigenExpansion": {"direction": "f: d", "nodes": "f: m 2", "functions": "f: b m"},
    "MaclaurinExpansion": {"centre": "f: d"},
    "MeanSplitExpansion": {"direction": "f: d", "functions": "f: b n"},
    "RadialDensity": {"radii": "f: r", "weights": "f: r"},
    # Gaussian processes
    **without_arrays("Search SearchStep"),
    "DirichletLabels": {"means": "f: c"},
    "ExactGPClassifier": {"X_train_": "f: n d", "_codes": "iu: n", "_counts": "f: n", **CLASSES},
    "ExactGPRegressor": {"X_train_": "f: n d", **SCALES},
    "ExactPosterior": {"weights": "f: D k"},
    "FeatureGPClassifier": {
        "_named": "iufbOUS: any",
        "_probe": "fc: any any",
        "residuals_": "f: any",
        **CLASSES,
    },
    "FeatureGPRegressor": {
        "_probe": "fc: any any",
        "offset_": "f: k",
        "residuals_": "f: any",
        **SCALES,
    },
    "ImputedGPRegressor": {"missing_variances_": "f: q"},
    "CholeskyPosterior": {"weights": "fc: D k"},
    "ConjugateGradients": {},
    "SampledPosterior": {"weights": "f: D k", "basis": "f: D r", "rest": "f: D s"},
    "ClassSums": {},
    "HeldOutRows": {
        "hashes": "u: n",
        "rows": "fc: n D",
        "labels": "iufbOUS: n",
        "counts": "f: n",
    },
    "PackedFactor": {"values": "fc: any"},
    "PackedMatrix": {"values": "fc: any"},
    "SampledFunctions": {"weights": "fc: D k n", "shifts": "f: k", "scales": "f: k"},
    "SufficientStatistics": {"cross": "fc: D k", "plain": "f: 2 any", "targets": "fc: k k"},
}

LINEAR: Arrays = {
    "coef_": "fiu: d | k d",
    "intercept_": "fiu: | k",
    "classes_": LABELS,
    "n_iter_": "iu: any",
    "singular_": "fiu: any",
}
SCALER: Arrays = {
    **dict.fromkeys(("scale_", "min_", "mean_", "var_", "center_", "max_abs_"), "fiu: d"),
    **dict.fromkeys(("n_samples_seen_", "data_min_", "data_max_", "data_range_"), "fiu: d"),
}
SCIKIT_LEARN: dict[str, Arrays] = {
    **without_arrays("Binarizer ColumnTransformer FeatureUnion FrozenEstimator Normalizer"),
    **without_arrays("OrdinalEncoder Pipeline PolynomialFeatures TransformedTargetRegressor"),
    "LabelBinarizer": {"classes_": LABELS},
    "LabelEncoder": {"classes_": LABELS},
    **dict.fromkeys(("LinearRegression", "LinearSVC", "LinearSVR", "LogisticRegression"), LINEAR),
    **dict.fromkeys(("Ridge", "RidgeClassifier"), LINEAR),
    **dict.fromkeys(("MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"), SCALER),
    "KBinsDiscretizer": {"bin_edges_": "O: d", "n_bins_": "iu: d"},
    "MissingIndicator": {"features_": "iu: any"},
    "OneHotEncoder": {"drop_idx_": "O: d", "_drop_idx_after_grouping": "O: d"},
    "PCA": {
        "components_": "fiu: k d",
        "mean_": "fiu: d",
        "explained_variance_": "fiu: k",
        "explained_variance_ratio_": "fiu: k",
        "singular_values_": "fiu: k",
    },
    "PowerTransformer": {"lambdas_": "fiu: d"},
    "QuantileTransformer": {"references_": "fiu: q", "quantiles_": "fiu: q d"},
    "SimpleImputer": {"statistics_": "fiuOUS: d"},
}
