"""Level of detail: as many spans as a budget allows, and the short ones in bundles, so that none is left out.

A *row* is one depth of one lane; its spans follow each other. A span keeps to itself where it is long enough; shorter
neighbours of a row become one bundle, which says how many they are and how much of its extent they cover. How long is
long enough follows from the budget: a picture of any size costs about the same to draw and to send.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from stepprof_lab.trace.intervals import Bool, Int64

BIN = 4
"""A bundle begins anew after so many times the length from which spans stay alone: what is merged stays small."""


@dataclasses.dataclass(frozen=True)
class Bundles:
    """Spans of rows in order of row and start, cut into groups; most groups are one span.

    Index arrays point into the spans as they were given.
    """

    order: Int64
    """The spans in order of row and start."""
    first: Int64
    """Where each group begins in `order`."""

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.first)

    @property
    def count(self) -> Int64:
        """Spans in each group."""
        return np.diff(np.append(self.first, len(self.order)))

    def group_of_span(self) -> Int64:
        """For each span as given, the number of its group."""
        groups = np.empty(len(self.order), dtype=np.int64)
        groups[self.order] = np.repeat(np.arange(len(self.first)), self.count)
        return groups

    def start(self, start: Int64) -> Int64:
        """Where each group begins; ns."""
        return start[self.order[self.first]]

    def end(self, end: Int64) -> Int64:
        """Where each group ends; ns."""
        latest: Int64 = np.maximum.reduceat(end[self.order], self.first)
        return latest

    def longest(self, start: Int64, end: Int64) -> Int64:
        """The longest span of each group, the first one of equals."""
        length = (end - start)[self.order]
        most = np.repeat(np.maximum.reduceat(length, self.first), self.count)
        is_longest = np.flatnonzero(length == most)
        place = np.searchsorted(is_longest, self.first)
        return self.order[is_longest[place]]

    def covered(self, start: Int64, end: Int64, row: Int64) -> Int64:
        """Length of the union of each group's spans; ns."""
        begins, ends, rows = start[self.order], end[self.order], row[self.order]
        # The latest end so far in the same row: rows are lifted apart, so that one running maximum serves all.
        lift = (rows - rows[0]) * (int(end.max()) - int(start.min()) + 1)
        reached = np.maximum.accumulate(ends + lift) - lift
        before = np.concatenate((begins[:1], reached[:-1]))
        before[np.flatnonzero(np.diff(rows)) + 1] = begins[np.flatnonzero(np.diff(rows)) + 1]
        fresh = np.maximum(ends - np.maximum(begins, before), 0)
        summed: Int64 = np.add.reduceat(fresh, self.first)
        return summed

    def any_of(self, marks: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
        """The marks that any span of each group has."""
        joined: npt.NDArray[np.uint16] = np.bitwise_or.reduceat(marks[self.order], self.first)
        return joined


def bundle(start: Int64, end: Int64, row: Int64, budget: int) -> Bundles:
    """Cut spans into at most ``budget`` groups (or one a row, where there are more rows than that).

    Args:
        start: of each span; ns.
        end: of each span; ns.
        row: of each span; a number from 0.
        budget: groups that are wanted at the most.
    """
    order = np.lexsort((start - end, start, row))
    begins, length, rows = start[order], (end - start)[order], row[order]
    if len(order) <= budget:
        return Bundles(order, np.arange(len(order)))
    begins = begins - begins.min()
    low, high = 0, int((begins + length).max()).bit_length() + 1
    while low < high:  # the smallest power of two that keeps to the budget
        middle = (low + high) // 2
        if int(_cuts(begins, length, rows, 1 << middle).sum()) <= budget:
            high = middle
        else:
            low = middle + 1
    return Bundles(order, np.flatnonzero(_cuts(begins, length, rows, 1 << low)))


def _cuts(begins: Int64, length: Int64, rows: Int64, shortest: int) -> Bool:
    """Where a group begins, if spans of ``shortest`` ns and more stay alone."""
    alone = length >= shortest
    part = begins // (BIN * shortest)
    cut = np.ones(len(begins), dtype=np.bool_)
    cut[1:] = alone[1:] | alone[:-1] | (part[1:] != part[:-1]) | (rows[1:] != rows[:-1])
    return cut


def apart(start: Int64, end: Int64, most: int) -> Int64:
    """A row for each span, so that spans of one row do not overlap: the first row that is free when it starts.

    Args:
        start: of each span; ns.
        end: of each span; ns.
        most: rows at the most; what finds none free goes into the last one, over what is there.
    """
    row = np.zeros(len(start), dtype=np.int64)
    order = np.lexsort((start - end, start))
    begins, ends = start[order], end[order]
    reached = np.maximum.accumulate(ends)
    overlaps = begins[1:] < reached[:-1]
    if not overlaps.any():
        return row
    touched = np.zeros(len(order), dtype=np.bool_)
    touched[1:] |= overlaps
    touched[:-1] |= overlaps
    free = [int(begins[0])] * most
    for place in np.flatnonzero(touched).tolist():
        begin = int(begins[place])
        chosen = next((n for n, since in enumerate(free) if since <= begin), most - 1)
        free[chosen] = max(free[chosen], int(ends[place]))
        row[order[place]] = chosen
    return row


@dataclasses.dataclass(frozen=True)
class Detail:
    """The spans of all lanes as columns, in order of lane, depth and start; times in ns from the timeline's start."""

    lane: Int64
    """Index of the lane in the timeline."""
    depth: Int64
    start: Int64
    end: Int64
    name_id: Int64
    names: list[str]
    kind_id: Int64
    kinds: list[str]
    count: Int64
    """1, or how many spans a bundle holds."""
    own: Int64
    """Self time of an operator; the time that a bundle's spans cover. Meaningless for anything else."""
    launch: Int64
    """Index of the launch of device work (of the longest work of a bundle); -1 where none is shown."""
    evidence: npt.NDArray[np.uint16]
    """Bit n: it holds evidence of the finding ``found[n]``."""
    found: list[str]

    def __len__(self) -> int:
        """Number of spans and bundles."""
        return len(self.start)

    def coarser(self, budget: int) -> Detail:
        """The same with fewer spans in more bundles."""
        row = self.lane * (int(self.depth.max(initial=0)) + 1) + self.depth
        groups = bundle(self.start, self.end, row, budget)
        longest = groups.longest(self.start, self.end)
        count = np.add.reduceat(self.count[groups.order], groups.first)
        alone = groups.count == 1
        covered_alone = np.where(self.count > 1, self.own, self.end - self.start)[groups.order]
        start, end = groups.start(self.start), groups.end(self.end)
        covered = np.minimum(np.add.reduceat(covered_alone, groups.first), end - start)
        moved = np.append(groups.group_of_span(), -1)
        return Detail(
            lane=self.lane[longest],
            depth=self.depth[longest],
            start=start,
            end=end,
            name_id=self.name_id[longest],
            names=self.names,
            kind_id=self.kind_id[longest],
            kinds=self.kinds,
            count=count,
            own=np.where(alone, self.own[longest], covered),
            launch=moved[self.launch[longest]],
            evidence=groups.any_of(self.evidence),
            found=self.found,
        )
