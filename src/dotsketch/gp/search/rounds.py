"""The first stage of a search: rounds of L-BFGS, each on more rows than the one before.

Several starts on a few hundred rows, then the best of them on more rows, with the exact kernel.
Where features follow and there are more rows still, a last round sees these through landmarks:
what the parameters are worth to features on many rows is another question than what they are worth
to the exact kernel on few.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..._arrays import dense, host
from ..._support.progress import progress
from ..._support.threads import suited_blas_threads
from ...kernels import Kernel
from .collapsed import LandmarkEvidence
from .record import OutOfTime, Recorder
from .subset import SubsetEvidence

LONGER = 1.0, 2.0, 4.0  # factors of lengthscales at which a round with landmarks may begin
# A relative gain of the likelihood per row below this ends a round
TOLERANCE = 1e-5
NOISE = 1e-6, 0.1, 10.0  # least, first and greatest, times the mean square of the targets
NEAR_NOISE = 0.01  # the likelihood is flat where there is less: no other kernel begins there
ROWS_PER_LENGTHSCALE = 20
MOST_LENGTHSCALES = 200
MOST_NUMBERS = 1 << 26  # of the rows, made dense


class Round(NamedTuple):
    n_rows: int
    iterations: int  # at most


class Schedule(NamedTuple):
    """The rounds of a search: several starts on few rows, then the best of them on more."""

    rows: tuple[int, ...]  # of the exact rounds
    iterations: tuple[int, ...]  # at most, of these and of the last round
    n_starts: int
    n_landmarks: int = 0  # of the last round, at most
    landmark_rows: int = 0

    def with_most_landmarks(self, n_columns: int | None) -> Schedule:
        """No more landmarks than columns, if their number is known."""
        return self._replace(n_landmarks=min(self.n_landmarks, n_columns or self.n_landmarks))

    def rounds(self, n_rows: int) -> list[Round]:
        """The rounds that so many rows allow."""
        if self.n_landmarks and n_rows > self.rows[-1]:
            sizes = *self.rows, min(self.landmark_rows, n_rows)
            return [Round(*pair) for pair in zip(sizes, self.iterations, strict=True)]
        sizes = tuple(sorted({min(size, n_rows) for size in self.rows}))
        return [Round(size, max(self.iterations)) for size in sizes]


EXACT = Schedule((600, 1500, 3000), (60, 60, 60), 3)
# Exact rounds on many rows are the largest part of the time, and only prepare for landmarks here
FEATURES = Schedule((600, 1500, 3000), (60, 30, 12, 60), 3, 512, 10_000)
# Of those that only compare kernels
SHORT_EXACT = Schedule((400, 1000), (25, 25), 2)
SHORT_FEATURES = Schedule((400,), (25, 25), 2, 256, 4000)


class Descent:
    """Runs of L-BFGS on one subset; the best point of all of them, also if one was stopped."""

    share = 0.5  # of the time that is used when a run ends: something is left for the features

    def __init__(
        self,
        evidence: SubsetEvidence,
        box: np.ndarray,
        recorder: Recorder,
        square: float,
        iterations: int,
    ):
        self.evidence, self.box, self.recorder = evidence, box, recorder
        self.iterations = iterations
        self.square = square  # the unit of variances is this mean square of the targets
        self.best: tuple[float, np.ndarray | None] = np.inf, None

    def run(self, start: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and logarithms of the best point from a start."""
        earlier = self.recorder.earlier()
        if earlier is not None:
            (value, *found), was_stopped = earlier
            self.best = min(self.best, (value, np.array(found)), key=lambda pair: pair[0])
            if was_stopped:
                raise OutOfTime
            return value, np.array(found)
        began, count = time.perf_counter(), 0
        best = np.inf, start

        def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, count
            value, gradient = self.evidence(logarithms)
            count += 1
            if value < best[0]:
                best = value, logarithms.copy()
            self.recorder.check(self.share)
            return value, gradient

        what = f"search on {len(self.evidence.X)} rows"
        try:
            with (
                progress(what, self.iterations, self.recorder.verbose) as advance,
                suited_blas_threads(len(self.evidence.X)),
            ):
                minimize(
                    loss,
                    np.clip(start, self.box[:, 0], self.box[:, 2]),
                    jac=True,
                    method="L-BFGS-B",
                    bounds=self.box[:, [0, 2]],
                    callback=lambda _: advance(1),
                    options={
                        "maxiter": self.iterations,
                        "maxcor": 20,
                        "ftol": TOLERANCE,
                        "gtol": 1e-4,
                    },
                )
        finally:
            kernel, noise = self.evidence.parts(best[1])
            self.recorder.add(
                began,
                [float(best[0]), *best[1].tolist()],
                stage=self.evidence.stage,
                n_rows=len(self.evidence.X),
                n_columns=self.evidence.n_columns,
                n_evaluations=count,
                factor=1.0,
                log_likelihood=-float(best[0]) - self.evidence.Y.shape[1] * np.log(self.square) / 2,
                noise_variance=self.square * float(np.mean(noise)),
                prior_variance=self.square * float(np.mean(kernel.diag(self.evidence.X))),
            )
            self.best = min(self.best, best, key=lambda pair: pair[0])
        return best


class Found(NamedTuple):
    """A kernel with the parameters that were found for it, and its log-likelihood per row."""

    kernel: Any
    log_likelihood: float
    logarithms: np.ndarray  # as the optimiser has left them


class SearchRows(NamedTuple):
    """Some of the rows as a search takes them: dense, targets centred and of mean square 1."""

    X: np.ndarray  # (n, d)
    Y: np.ndarray  # (n, m)
    noise: np.ndarray | None  # (n,)
    counts: np.ndarray  # (n,)
    square: float  # the mean square that the targets had

    @classmethod
    def of(cls, X: Any, Y: Any, noise: Any, counts: Any, chosen: np.ndarray) -> SearchRows:
        """The chosen rows of all."""
        X = np.asarray(dense(X[chosen]), dtype=np.float64)
        counts = np.ones(len(X)) if counts is None else np.asarray(counts, dtype=float)[chosen]
        Y = Y[chosen] - np.average(Y[chosen], axis=0, weights=counts)
        square = float(np.mean(np.average(Y**2, axis=0, weights=counts)))
        if 0 < square < np.inf:
            Y = Y / np.sqrt(square)
            noise = None if noise is None else noise[chosen] / square
        return cls(X, Y, noise, counts, square)

    def first(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
        """What an evidence of the first n rows takes."""
        noise = None if self.noise is None else self.noise[:n]
        return self.X[:n], self.Y[:n], noise, self.counts[:n]


def best_on_rows(
    kernel: Any, *rows: Any, rng: np.random.Generator, recorder: Recorder, **options: Any
) -> Any:
    """The kernel of the exact rounds alone; see `found_on_rows`."""

    def compared(kernel: Any, rng: np.random.Generator, near: Found | None) -> Found:
        given: dict[str, Any] = {"rng": rng, "schedule": SHORT_EXACT, "near": near, **options}
        return found_on_rows(kernel, *rows, recorder=recorder, **given)[0]

    if len(kernel.alternatives()) > 1:
        kernel = preferred(kernel.alternatives(), compared, rng, recorder)
    return found_on_rows(kernel, *rows, rng=rng, recorder=recorder, schedule=EXACT, **options)[
        0
    ].kernel


def preferred(
    kernels: list[Any],
    compared: Callable[[Any, np.random.Generator, Found | None], Found],
    rng: np.random.Generator,
    recorder: Recorder,
    margin: float = 0.0,
) -> Any:
    """The best of some kernels, with the parameters found for it.

    The first one is preferred unless another is better by the margin. `compared` gets generators of
    equal state, so that all kernels see the same rows, and what was found for the first kernel,
    near which the others begin. None is begun after a third of the time, and one that time has
    stopped does not count: it has seen fewer rows than the others.
    """
    seed = int(rng.integers(2**31))
    found: list[Found] = []
    for kernel in kernels:
        try:
            recorder.check(share=1 / 3)
        except OutOfTime:
            break
        result = compared(kernel, np.random.default_rng(seed), found[0] if found else None)
        if found and recorder.was_stopped:
            break
        found.append(result)
    if not found:
        return kernels[0]
    best = max(found, key=lambda result: result.log_likelihood)
    is_clear = best.log_likelihood > found[0].log_likelihood + margin
    return best.kernel if is_clear else found[0].kernel


def found_on_rows(
    kernel: Any,
    X: Any,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray | None = None,
    *,
    per_column: bool | None,
    rng: np.random.Generator,
    recorder: Recorder,
    schedule: Schedule,
    near: Found | None = None,
) -> list[Found]:  # (n, d), (n, m), (n,), (n,)
    """Kernels with the parameters of the greatest marginal likelihood of some of the rows.

    The first is that of the exact rounds. If there are more rows, and the schedule has landmarks, a
    second one is that of landmarks on more of them.

    `per_column` asks for one lengthscale for every column, or for those that the kernel has; None
    decides by the rows there are. The mean of k(x, x) stays as it was: the scale of the process is
    the business of the prior variance. If something was found for another kernel with the same
    parameters (`near`), the search is its last round, from there.
    """
    order = rng.permutation(X.shape[0])[: MOST_NUMBERS // X.shape[1]]
    rounds = schedule.rounds(len(order))
    n_exact = min(schedule.rows[-1], len(order))
    least, greatest = extremes(X)
    recorder.constant_columns = tuple(np.flatnonzero(least == greatest).tolist())
    rows = SearchRows.of(X, Y, noise, counts, order[: rounds[-1].n_rows])
    X, square = rows.X, rows.square
    kernel = kernel.resolve(X)
    if len(X) < 3 or not 0 < square < np.inf:
        return [Found(kernel, 0.0, kernel.logarithms)]
    if per_column is None:
        per_column = suits_columns(float(np.sum(rows.counts)), X.shape[1])
    searched = kernel.per_column(X.shape[1]) if per_column and X.shape[1] > 1 else kernel
    box = searched.search_range(spread_rows(X, least, greatest))
    given = searched.logarithms
    if rows.noise is None:
        box, given = np.vstack([box, np.log(NOISE)]), np.append(given, np.log(NOISE[1]))
    others = rng.standard_normal((schedule.n_starts - 2, len(box)))
    starts = [given, box[:, 1], *(box[:, 1] + others)]
    if near is not None and len(near.logarithms) == len(given):
        given, rounds = near.logarithms.copy(), rounds[-1:]
        if rows.noise is None:
            given[-1] = max(given[-1], np.log(NEAR_NOISE))
        starts = [given]
    # loss and logarithms, without and with landmarks
    best: dict[bool, tuple[float, np.ndarray]] = {False: (np.inf, given)}
    try:
        for size, iterations in rounds:
            with_landmarks = size > n_exact
            evidence = SubsetEvidence(searched, *rows.first(size))
            if with_landmarks:
                landmarks = X[: schedule.n_landmarks]
                evidence = LandmarkEvidence(searched, landmarks, *rows.first(size))
                starts = _landmark_starts(evidence, best[False][1], box)
            descent = Descent(evidence, box, recorder, square, iterations)
            best[with_landmarks] = min(map(descent.run, starts), key=lambda pair: pair[0])
            # Where a parameter has run away, the likelihood is flat: more rows would not bring it
            # back from there.
            starts = [np.minimum(best[with_landmarks][1], box[:, 1] + np.log(2))]
    except OutOfTime:
        value, found = descent.best
        if found is not None:
            best[with_landmarks] = value, found
    return [
        Found(with_level(searched, found, kernel, X), -value, found)
        for value, found in best.values()
    ]


def _landmark_starts(
    evidence: LandmarkEvidence, found: np.ndarray, box: np.ndarray
) -> list[np.ndarray]:
    """Where a round with landmarks begins: the best of a few points.

    Where the exact kernel has found lengthscales that landmarks cannot resolve, and no noise, the
    likelihood of landmarks is flat: longer ones and usual noise are tried as well.
    """
    starts = [box[:, 1]]
    n = len(evidence.kernel.logarithms)
    for factor in LONGER:
        longer = evidence.kernel.with_logarithms(found[:n]).stretched(factor).logarithms
        for noise in (found[n:], np.maximum(found[n:], box[n:, 1])):
            starts.append(np.clip(np.append(longer, noise), box[:, 0], box[:, 2]))
    return [min(starts, key=lambda start: evidence(start)[0])]


def with_level(searched: Any, logarithms: np.ndarray, kernel: Any, X: np.ndarray) -> Any:
    """The kernel with these logarithms, and with the mean of k(x, x) that it had before."""
    best = searched.with_logarithms(logarithms[: len(searched.logarithms)])
    best = best.times(float(np.mean(kernel.diag(X))) / float(np.mean(best.diag(X))))
    is_same = np.isclose(float(host(best.variance)), float(host(kernel.variance)), rtol=1e-9)
    if is_same and "variance" in best.get_params():
        best.set_params(variance=kernel.variance)  # to the last digit
    return best


def suits_columns(n_rows: float, dimension: int) -> bool:
    """Whether rows are enough for one lengthscale per column."""
    return dimension <= MOST_LENGTHSCALES and ROWS_PER_LENGTHSCALE * dimension < n_rows


def has_parameters(kernel: Any) -> bool:
    """Whether a kernel has parameters to search beside its scale."""
    return isinstance(kernel, Kernel) and len(kernel.detached().resolve(np.eye(2)).logarithms) > 1


def extremes(X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (d,), (d,)
    """The least and the greatest value of every column, dense or sparse."""
    least, greatest = (np.ravel(dense(part)) for part in (X.min(axis=0), X.max(axis=0)))
    return least, greatest


def spread_rows(X: np.ndarray, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    """Rows whose columns vary if those of all rows do: a few rows may miss rare values."""
    missed = (np.ptp(X, axis=0) == 0) & (least < greatest)
    if not np.any(missed):
        return X
    X = X.copy()
    X[0, missed], X[1, missed] = least[missed], greatest[missed]
    return X
