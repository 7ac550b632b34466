"""Whether a text asks for something that a trace shows, or wishes for something.

Free text can be said in many ways, so this knows only what is surely no question: a wish (alone, or dressed as "how
can we ..."), a question without an object ("why is it slow?"), two questions in one. Everything else passes, in any
language: the choice among given questions is where a learner shows that they can tell them apart.
"""

from __future__ import annotations

import re
from typing import Literal

Form = Literal["question", "wish", "vague", "several"]

_WANTED = (
    r"(speed(ing|s)? up|speed (it|this|the|our)\b|accelerat\w*|improv\w*|optimi[sz](e|es|ing|ation)\b|reduc\w*"
    r"|increas\w*|decreas\w*|maximi[sz]\w*|minimi[sz]\w*|fix(es|ing)?\b|boost\w*|get(ting)? rid|tun(e|ing)"
    r"|shorten\w*|eliminat\w*|halv(e|ing)|cut(ting)? (down|the)|lower(ing)? the"
    r"|(make|making|get|getting|run|running|be|become) [^?]*"
    r"\b(fast(?! enough)|faster|quick|quicker|better|efficient|cheaper|shorter)\b)"
)
"""What is done to a program, not seen in it."""

_ASKS = re.compile(
    r"\b(whether|which|where|when|who|what|how (long|much|many|often|far|large|big)|why|to what|by how|if)\b"
    r"|^\W*(is|are|does|do|did|has|have|was|were|will|can|could)\b"
)
_WISH_IN_QUESTION = re.compile(
    rf"\bhow (can|could|do (we|i|you)|should|would|might|to)\b[^?]*\b{_WANTED}"
    rf"|^\W*(can|could|may|should) (we|i|you|one|it|this|they|the \w+|my \w+|our \w+)\b[^?]*\b{_WANTED}"
    rf"|\bpossible to\b[^?]*\b{_WANTED}"
    rf"|\bwhat (can|could|should|must|do|would|to)\b[^?]*\b{_WANTED}"
    r"|\bwhat (can|could|should|must) (we|i|one) (do|change|try)\b"
    r"|\bwhat (makes?|would make)\b[^?]*\b(faster|quicker|better)\b"
)
_WISH = re.compile(
    rf"^\W*(please |let us |let's |just |we (have|need|want) to |i (have|need|want) to |to )*{_WANTED}"
    r"|\b(should|ought to|wants?|would like|wish|please|has to be|as \w+ as possible)\b"
    r"|\b(faster|quicker|speed-?up)\b"
)
_SLOW = re.compile(r"\b(slow|slower|bottlenecks?|problems?|wrong|so long|performance|going on)\b")
_OBJECT = re.compile(
    r"\b(read\w*|load\w*|data|batch\w*|cop(y|ies|ied|ying)|transfer\w*|kernels?|launch\w*|operat\w*|ops?|gpu|cpu|comput\w*"
    r"|forward|backward|updat\w*|optimi[sz]er|wait\w*|idle|sync\w*|stream\w*|tensors?|decod\w*|matmul|conv\w*|attention"
    r"|first|worker\w*|queue\w*|host|device|memor\w*|layers?)\b"
)
"""What a trace has events of: a question that names one of these has an object."""

_SECOND = re.compile(r"[,;]?\s+and (is|are|does|do|did|why|which)\b")


def form_of(text: str) -> Form:
    """What a text is, as far as its form tells; "question" where nothing speaks against it."""
    said = " ".join(text.lower().replace("\u2019", "'").split())
    if len(re.findall(r"[?\uff1f][?!\uff1f\s]*", said)) > 1 or _SECOND.search(said):
        return "several"
    if _WISH_IN_QUESTION.search(said):
        return "wish"
    if not _ASKS.search(said) and _WISH.search(said):
        return "wish"
    if _SLOW.search(said) and not _OBJECT.search(said):
        return "vague"
    return "question"
