"""Which candidate is the best, with as few predictions as that takes."""

from __future__ import annotations

import math

from ..features import FeatureMap
from ..features.base import Floor
from ..features.errors import Beaten, Unsuited
from ..features.study import Study
from .posterior import PosteriorReference
from .table import Dropped, PlannedCandidate, score


class Contest:
    """Candidates one by one, the least floor first, without those that cannot be the best.

    A floor (`FeatureMap.floor`) is a cheap bound of the error. What is above the best error so far
    is dropped, and a measurement ends early where it is clearly above. Ties go to the candidate
    that is cheaper, or comes first, as in a plan of all. Candidates with more than
    most_operations per row may be left out later, and drop nothing. With a `posterior` the
    divergence from it counts: it has no floor, only measurements that end early.

    Attributes
    ----------
    rows : dict of the number of a candidate to its PlannedCandidate
    dropped : dict of the number of a candidate to its Dropped; only `droppable` ones
    """

    def __init__(
        self,
        study: Study,
        chosen: list[FeatureMap],
        droppable: set[int],
        *,
        cost_weight: float,
        most_operations: float,
        posterior: PosteriorReference | None = None,
    ):
        self.posterior = posterior
        self.study, self.chosen, self.droppable = study, chosen, droppable
        self.cost_weight, self.most_operations = cost_weight, most_operations
        self.rows: dict[int, PlannedCandidate] = {}
        self.dropped: dict[int, Dropped] = {}
        self.best: tuple[float, ...] = (math.inf,)
        self._unprepared = set(range(len(chosen)))

    def order(self) -> list[int]:
        """Of equal floors the last first: families list their plain variants before better ones."""
        if not self.droppable:
            return list(range(len(self.chosen)))
        droppable = [self.chosen[i] for i in sorted(self.droppable)]
        for family in dict.fromkeys(type(one) for one in droppable):
            family.prepare_floors(self.study, [one for one in droppable if type(one) is family])
        return sorted(range(len(self.chosen)), key=lambda i: (self._floor(i)[0][0], -i))

    def compare(self, i: int) -> None:
        self._prepare(i)
        if self._is_beaten(i):
            self.dropped[i] = Dropped(self.chosen[i], self._floor(i)[1])
            return
        to_beat = math.inf
        if i in self.droppable and self.cost_weight == 0:
            to_beat = self.best[0]
        try:
            self._add(i, to_beat)
        except Beaten as beaten:
            self.dropped[i] = Dropped(self.chosen[i], *beaten.args)

    def compare_dropped(self) -> None:
        for i in sorted(self.dropped):
            self._add(i)
        self.dropped.clear()

    def _prepare(self, i: int) -> None:
        """What the family of the candidate computes for all at once, if that can still be best."""
        if i not in self._unprepared or self._is_beaten(i):
            return
        family = type(self.chosen[i])
        members = {j for j in self._unprepared if type(self.chosen[j]) is family}
        members = {j for j in members if not self._is_beaten(j)}
        self._unprepared -= members
        family.prepare(self.study, [self.chosen[j] for j in sorted(members)])

    def _is_beaten(self, i: int) -> bool:
        """Whether a candidate that nobody named cannot be the best."""
        if i not in self.droppable or self.posterior is not None:
            return False
        return self._floor(i)[0] > self.best

    def _add(self, i: int, to_beat: float = math.inf) -> None:
        self.study.to_beat = to_beat if self.posterior is None else math.inf
        try:
            row = PlannedCandidate.of(self.chosen[i], self.study, self.posterior, to_beat)
        except Unsuited:  # too few columns
            return
        finally:
            self.study.to_beat = math.inf
        self.rows[i] = row
        if row.cost <= self.most_operations or i not in self.droppable:
            self.best = min(self.best, (*score(row.value, row.cost, self.cost_weight), i))

    def _floor(self, i: int) -> tuple[tuple[float, ...], float]:
        """What the order of the candidate is at least, and its error."""
        try:
            floor = self.chosen[i].floor(self.study)
        except Unsuited:
            floor = Floor()
        return (*score(*floor, self.cost_weight), i), floor.relative_error
