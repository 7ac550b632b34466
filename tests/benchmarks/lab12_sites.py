"""What the sites of lab 12's loops take: ``python tests/benchmarks/lab12_sites.py``.

For each pair of causes, the share of the step that each planted one takes (what its repair saves), and, in a loop of
its own, what a harmless form takes beside the repaired one. By the processor time of one thread.
"""

from __future__ import annotations

import itertools
import random
import sys

from stepprof_lab.grading.labs import repaired, slow_loop


def main() -> None:
    """Print one line a pair."""
    drawn = slow_loop.draw(random.Random(1))
    for planted in itertools.combinations(sorted(slow_loop.SITES), 2):
        plan = drawn | {"planted": list(planted)}
        found = repaired.ratios(
            {"original": slow_loop.build_of(plan)} | {name: slow_loop.build_of(plan, [name]) for name in planted}
        )
        sys.stdout.write(f"{', '.join(f'{name} takes {1 - found[name]:.0%}' for name in planted)}\n")
    for name in slow_loop.SITES:
        # The same loop, where this site alone was repaired or never had the cause.
        other = next(one for one in slow_loop.SITES if one != name)
        harmless = slow_loop.build_of(drawn | {"planted": [other]})
        mended = slow_loop.build_of(drawn | {"planted": [other, name]}, [name])
        share = 1 - repaired.ratios({"original": harmless, "mended": mended})["mended"]
        sys.stdout.write(f"{name}, harmless: {share:.0%}\n")


if __name__ == "__main__":
    main()
