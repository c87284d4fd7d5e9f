"""Which candidate is the best, with as few predictions as that takes."""

from __future__ import annotations

import math
from contextlib import suppress

from ..features import FeatureMap
from ..features.base import Floor
from ..features.study import Beaten, Study, Unsuited
from .table import Dropped, PlannedCandidate, score


class Contest:
    """Candidates one by one, the least floor first, without those that cannot be the best.

    A floor (`FeatureMap.floor`) is a cheap bound of the error. What is above the best error so far
    is dropped, and a measurement ends early where it is clearly above. Ties go to the candidate
    that is cheaper, or comes first, as in a plan of all. Candidates with more than
    most_operations per row may be left out later, and drop nothing.

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
    ):
        self.study, self.chosen, self.droppable = study, chosen, droppable
        self.cost_weight, self.most_operations = cost_weight, most_operations
        self.rows: dict[int, PlannedCandidate] = {}
        self.dropped: dict[int, Dropped] = {}
        self.best: tuple[float, ...] = (math.inf,)

    def order(self) -> list[int]:
        """Of equal floors the last first: families list their plain variants before better ones."""
        if not self.droppable:
            return list(range(len(self.chosen)))
        return sorted(range(len(self.chosen)), key=lambda i: (self._floor(i)[0][0], -i))

    def compare(self, i: int) -> None:
        if i in self.droppable:
            key, error = self._floor(i)
            if key > self.best:
                self.dropped[i] = Dropped(self.chosen[i], error)
                return
            if self.cost_weight == 0:
                self.study.to_beat = self.best[0]
        try:
            self._add(i)
        except Beaten as beaten:
            self.dropped[i] = Dropped(self.chosen[i], *beaten.args)
        finally:
            self.study.to_beat = math.inf

    def compare_dropped(self) -> None:
        for i in sorted(self.dropped):
            self._add(i)
        self.dropped.clear()

    def _add(self, i: int) -> None:
        with suppress(Unsuited):  # too few columns
            row = self.rows[i] = PlannedCandidate.of(self.chosen[i], self.study)
            if row.cost <= self.most_operations or i not in self.droppable:
                key = *score(row.relative_error, row.cost, self.cost_weight), i
                self.best = min(self.best, key)

    def _floor(self, i: int) -> tuple[tuple[float, ...], float]:
        """What the order of the candidate is at least, and its error."""
        try:
            floor = self.chosen[i].floor(self.study)
        except Unsuited:
            floor = Floor()
        return (*score(*floor, self.cost_weight), i), floor.relative_error
