"""The parameters of a kernel by the marginal likelihood: one search for all models.

Analytic gradients (`Kernel.with_pullback`), L-BFGS, one lengthscale for each input, kernel variance
and noise, targets of mean 0 and variance 1:

1. 400 random rows with the exact kernel, from two starts: the median distance, and the centre of
   the range;
2. 1,000 random rows, from the better end;
3. the alternatives of the kernel (other smoothness) from there, on the same rows, of which one is
   taken if it is better by more than chance;
4. 512 landmarks on 8,000 rows, if there are more than 2,000.

Rows matter more than iterations: 500 exact rows alone are within 5 % of the error of steps 1 to 3
on most tables, and far off where the function is nearly free of noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from .._arrays import Array, dense
from .._support.html import html_table
from .._support.stored import stored
from .._support.threads import suited_blas_threads
from ..kernels import Composite, Kernel
from .algebra import evidence_of_kernel, evidence_of_landmarks

FIRST_ROWS, EXACT_ROWS = 400, 1000  # of steps 1 and 2: cubic time, some milliseconds each
LANDMARKS, MANY_ROWS = 512, 8000  # of step 4: about a quarter of a second each
MOST_INPUTS = 300  # with a lengthscale each; more inputs share one
# Log-likelihoods of rows differ by about 0.6 between kernels: 0.02 is the luck of 1,000 rows
CHANCE = 0.02
FAILED = 1e30  # the loss where a matrix is not positive definite: a line search steps back

Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


@stored
class SearchStep(NamedTuple):
    """One run of the optimiser."""

    stage: str  # "few rows", "rows", "smoothness" or "landmarks"
    kernel: Kernel
    n_rows: int
    n_landmarks: int | None  # None for the exact kernel
    n_evaluations: int
    log_likelihood: float  # per row and output
    noise_variance: float
    seconds: float


@stored
@dataclass(frozen=True)
class Search:
    """The best kernel, and what was tried; prints as a table."""

    kernel: Kernel
    steps: tuple[SearchStep, ...]

    @property
    def seconds(self) -> float:
        """The time of all steps together."""
        return sum(step.seconds for step in self.steps)

    def __str__(self) -> str:
        return "\n".join([HEADER, *map(line_of, self.steps)])

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{step.stage}: {step.kernel!r}",
                step.n_rows,
                step.n_landmarks or "exact",
                f"{step.log_likelihood:.4f}",
                f"{step.noise_variance:.3g}",
                f"{step.seconds:.1f}",
            )
            for step in self.steps
        ]
        return html_table(("step", "rows", "landmarks", "log p/n", "noise", "seconds"), rows)

    def plot(self, ax: Any = None) -> Any:
        """The log-likelihood per row of every step, in their order; the matplotlib axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(figsize=(6, 0.3 * len(self.steps) + 1), layout="constrained")[1]
        places = range(len(self.steps))
        ax.plot([step.log_likelihood for step in self.steps], places, "o", color="#3b6ea5")
        ax.set_yticks(places, [f"{s.stage}, {type(s.kernel).__name__}" for s in self.steps])
        ax.set_xlabel("log-likelihood per row (with landmarks a lower one)")
        ax.invert_yaxis()
        return ax

    def to_pandas(self) -> Any:
        """The steps as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.steps, columns=SearchStep._fields)


HEADER = (
    f"{'stage':<11}{'kernel':<14}{'rows':>6}{'landmarks':>11}{'log p/n':>10}{'noise':>10}{'s':>7}"
)


def line_of(step: SearchStep) -> str:
    """One line of the table of a search."""
    landmarks = "exact" if step.n_landmarks is None else str(step.n_landmarks)
    smoothness = f" {step.kernel.nu:g}" if hasattr(step.kernel, "nu") else ""
    name = f"{type(step.kernel).__name__}{smoothness}"
    return (
        f"{step.stage:<11}{name:<14}{step.n_rows:>6}{landmarks:>11}{step.log_likelihood:>10.4f}"
        f"{step.noise_variance:>10.3g}{step.seconds:>7.1f}"
    )


def best_kernel(
    kernel: Kernel,
    X: Array,
    Y: np.ndarray,
    *,
    noise: np.ndarray | None = None,
    alternatives: Sequence[Kernel] = (),
    rng: np.random.Generator,
    verbose: bool = False,
) -> Search:  # (n, d), (n, m), (n,)
    """The kernel with the parameters of the greatest marginal likelihood of targets Y.

    `noise` are noise variances of the rows, in units of Y, if they are not to be searched.
    `alternatives` are kernels with the same parameters to compare. The kernel keeps its mean
    k(x, x): models choose a prior variance, which multiplies it, on all rows.
    """
    order = rng.permutation(X.shape[0])[:MANY_ROWS]
    X = np.asarray(dense(X[order]), dtype=np.float64)
    Y, noise = Y[order], None if noise is None else noise[order]
    scales = np.std(Y, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    Y = (Y - Y.mean(axis=0)) / scales
    if noise is not None:
        noise = noise / np.mean(scales**2)
    level = np.mean(kernel.resolve(X[:EXACT_ROWS]).diag(X))

    def prepared(unset: Kernel) -> Any:
        resolved = unset.resolve(X[:EXACT_ROWS])
        return resolved.per_column(X.shape[1]) if 1 < X.shape[1] <= MOST_INPUTS else resolved

    first = prepared(kernel)
    box = first.search_range(X[: 2 * EXACT_ROWS])  # least, typical and greatest logarithms
    if noise is None:
        box = np.vstack([box, np.log([1e-6, 0.1, 10.0])])
    steps: list[SearchStep] = []
    # sums and products of kernels have long valleys: with the tolerance of one kernel a search of
    # a trend and a period ends up to 20 nats below the likelihood that it can reach
    tolerance, factor = (1e-8, 8) if isinstance(kernel, Composite) else (1e-5, 1)

    def loss_of(kernel: Any, n_rows: int, n_landmarks: int | None) -> Loss:
        landmarks = None if n_landmarks is None else X[:n_landmarks]
        own = None if noise is None else noise[:n_rows]
        return _loss_of(kernel, box, X[:n_rows], Y[:n_rows], own, landmarks)

    def run(
        stage: str,
        starts: list[tuple[Any, np.ndarray]],
        n_rows: int,
        most: int,
        n_landmarks: int | None = None,
    ) -> tuple[Any, np.ndarray]:
        """The kernel and the end of the optimiser with the least loss: a step of the table."""
        began = time.perf_counter()
        starts = [(k, np.clip(x, box[:, 0], box[:, 2])) for k, x in starts]
        with suited_blas_threads(n_landmarks or min(n_rows, len(X))):
            if n_landmarks is not None:  # one descent only, from the best of the starts
                firsts = [loss_of(k, n_rows, n_landmarks)(x)[0] for k, x in starts]
                starts = [starts[int(np.argmin(firsts))]]
            ends = [
                _descended(loss_of(k, n_rows, n_landmarks), x, box, factor * most, tolerance)
                for k, x in starts
            ]
        number = int(np.argmin([end.fun for end in ends]))
        best, used = ends[number], starts[number][0]
        steps.append(
            SearchStep(
                stage,
                used.with_logarithms(best.x if noise is not None else best.x[:-1]),
                min(n_rows, len(X)),
                n_landmarks,
                sum(end.nfev for end in ends),
                -float(best.fun),
                float(np.exp(best.x[-1]) if noise is None else np.mean(noise)),
                time.perf_counter() - began,
            )
        )
        if verbose:
            print(*([HEADER] if len(steps) == 1 else []), line_of(steps[-1]), sep="\n")
        return used, best.x

    own = first.logarithms if noise is not None else np.append(first.logarithms, np.log(0.1))
    ends = [run("few rows", [(first, own), (first, box[:, 1])], FIRST_ROWS, 30)]
    if len(X) > FIRST_ROWS:
        # few rows may find an input irrelevant by chance: it gets the chance to come back
        start = ends[0][1] if factor > 1 else np.minimum(ends[0][1], box[:, 1] + np.log(4))
        ends = [run("rows", [(first, start)], EXACT_ROWS, 25)]
    best = 0
    for alternative in alternatives:
        start = ends[best][1].copy()
        if noise is None:  # a rougher or smoother kernel needs some noise to begin with
            start[-1] = max(start[-1], np.log(0.01))
        ends.append(run("smoothness", [(prepared(alternative), start)], EXACT_ROWS, 12))
        values = [step.log_likelihood for step in steps[-len(ends) :]]
        if values[-1] > values[best] + CHANCE:
            best = len(ends) - 1
    chosen = len(steps) - len(ends) + best
    if len(X) > 2 * EXACT_ROWS:
        # landmarks see less than exact rows do: shorter lengthscales and some noise may suit them;
        # kernels that few rows cannot tell apart are compared by many
        values = [step.log_likelihood for step in steps[-len(ends) :]]
        starts = []
        for (used, end), value in zip(ends, values, strict=True):
            if value >= max(values) - CHANCE:
                shorter = np.minimum(end, box[:, 1] + np.log(2))
                if noise is None:
                    shorter[-1] = max(end[-1], np.log(0.02))
                starts += [(used, end), (used, shorter)]
        run("landmarks", starts, MANY_ROWS, 25, LANDMARKS)
        chosen = len(steps) - 1
    return Search(levelled(steps[chosen].kernel, X, float(level)), tuple(steps))


def levelled(kernel: Any, X: Any, level: float) -> Any:
    """The kernel times a number, so that the mean k(x, x) of the rows is at this level."""
    own = float(np.mean(np.asarray(kernel.diag(X))))
    return kernel.times(level / own) if own > 0 and level > 0 else kernel


def _loss_of(
    kernel: Any,
    box: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    noise: np.ndarray | None,
    B: np.ndarray | None = None,
) -> Loss:  # (n, d), (n, m), (n,), (b, d)
    """−log p(y) per number, of logarithms of the kernel and, last, of the noise if it is free.

    With the exact kernel, or that of landmarks B. Every parameter has a log-normal prior: its
    typical value, √10 in logarithms. (As BoTorch has it for lengthscales, and GPyTorch's examples
    since 2023.) It decides what few rows leave open, and weighs nothing against many.
    """

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        inner = logarithms if noise is not None else logarithms[:-1]
        variance = np.exp(logarithms[-1]) if noise is None else noise
        current = kernel.with_logarithms(inner)
        pairs = [(X,)] if B is None else [(B,), (B, X)]
        with np.errstate(over="ignore", invalid="ignore"):
            matrices, pulls = zip(*(current.with_pullback(*pair) for pair in pairs), strict=True)
        evidence: Any = evidence_of_kernel if B is None else evidence_of_landmarks
        result = evidence(*matrices, Y, variance)
        if result is None:
            return FAILED, np.zeros_like(logarithms)
        value, slopes, of_noise = result
        gradient = sum(pull(slope) for pull, slope in zip(pulls, slopes, strict=True))
        gradient = gradient if noise is not None else np.append(gradient, of_noise)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):  # rounding has won
            return FAILED, np.zeros_like(logarithms)
        away = (logarithms - box[:, 1]) / (10 * len(X))
        prior = float(away @ (logarithms - box[:, 1])) / 2
        return value / Y.size + prior, gradient / Y.size + away

    return loss


def _descended(
    loss: Loss, start: np.ndarray, box: np.ndarray, most: int, tolerance: float
) -> OptimizeResult:
    if not len(start):  # a kernel without parameters, and given noise
        return OptimizeResult(x=start, fun=loss(start)[0], nfev=1)
    return minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=box[:, [0, 2]],
        options={"maxiter": most, "maxcor": 20, "ftol": tolerance, "gtol": 10 * tolerance},
    )
