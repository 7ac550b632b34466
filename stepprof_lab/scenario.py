"""The question, asked before a trace exists: what a step is, under which conditions, in which unit.

A scenario is a small TOML file. `Scenario.load` reads it, `Scenario.dumps` writes it, and reading what was written
gives the same scenario.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["training", "inference"]
Unit = Literal["ms/step", "ms/request", "samples/s"]


class Boundary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one step includes (true) and leaves out (false)."""

    read: bool
    transfer: bool
    forward: bool
    backward: bool
    update: bool
    model_load: bool


class Conditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Under which conditions the step runs; what is None or empty was not stated."""

    shapes: list[str] = []
    """Shapes of the step's inputs, as text: ["64x1x8x8", "64"]."""
    batch: int | None = None
    precision: str | None = None
    """float32, bfloat16, mixed bfloat16 ..."""
    mode: Literal["train", "eval"] | None = None
    compiled: bool | None = None
    data_source: str | None = None
    loader_workers: int | None = None
    differs_from_full_load: str | None = None
    """How this scene differs from the load it stands for."""
    observed: list[str] = []
    """Names of the conditions above that were observed on a running workload, not stated by a person."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far the outputs of two arms may differ; by default not at all."""

    relative_tolerance: float = 0.0
    absolute_tolerance: float = 0.0
    reason: str | None = None
    """Why a tolerance is right; asked for wherever one is given."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One question about one step."""

    question: str
    kind: Kind
    boundary: Boundary
    unit: Unit
    seed: int = 0
    change: str | None = None
    """The one controlled change, where there is one already."""
    conditions: Conditions = Conditions()
    outputs: Outputs = Outputs()
