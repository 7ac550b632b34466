"""Numbers that differ from learner to learner and stay the same for each of them.

``HMAC-SHA256(key, learner, lab, purpose)`` seeds a generator (HMAC as in RFC 2104). The key of practice is public: it
only makes the exercises differ. The key of grading is the course's secret.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import random

PRACTICE_KEY = b"stepprof_lab practice"
"""Public: with it anyone can make anyone's exercise, and nobody's hidden cases."""

LEARNER_VARIABLE = "STEPPROF_LEARNER"


def learner() -> str:
    """Who works here: ``STEPPROF_LEARNER``, or JupyterHub's user, or the login name; "anyone" where there is none."""
    for name in (LEARNER_VARIABLE, "JUPYTERHUB_USER", "NB_USER"):
        if value := os.environ.get(name, "").strip():
            return value
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "anyone"


def chance(who: str, purpose: str, *, key: bytes = PRACTICE_KEY) -> random.Random:
    """A generator of a learner's own numbers.

    Args:
        who: the learner.
        purpose: what the numbers are for ("03/material"): each purpose has numbers of its own.
        key: practice by default; the course's secret when grading.
    """
    text = "\x00".join((who, purpose)).encode()
    return random.Random(hmac.digest(key, text, hashlib.sha256))  # noqa: S311 - seeded by the HMAC on purpose
