"""What text gives away about a person or an account: traces and their records are made to be shared.

`secrets_in` finds it, `refuse_secrets` refuses it with the reason. Each form is one row of `FORMS`. The search takes
time in proportion to the text: every pattern either has bounded repetition, or starts only where a word starts and
then reads that word once.

It is a net with known holes: a password that looks like a word is not found, nor is a name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SecretKind = Literal["e-mail address", "access token", "password", "home directory", "network path", "random text"]

INSTEAD: dict[SecretKind, str] = {
    "e-mail address": "leave the address out",
    "access token": "leave it out, and revoke the token if this text was shared",
    "password": "leave it out, and change the password if this text was shared",
    "home directory": "write a relative path, or begin it with ~/",
    "network path": "write a relative path",
    "random text": "leave it out, or shorten it to eight characters if it is a digest",
}
"""For each kind, what to do about it."""


class Secret(NamedTuple):
    """One find: ``text[start : start + len(found)] == found``."""

    kind: SecretKind
    found: str
    start: int

    @property
    def hint(self) -> str:
        """Enough of it to recognise it by, at most a quarter: the error line may be shared as well."""
        return f"{self.found[: min(4, len(self.found) // 4)]}..."

    @property
    def sentence(self) -> str:
        """What it is and where, for an error line: ``a home directory ("/ho...", character 12)``."""
        article = "an" if self.kind[0] in "aeiou" else "a"
        return f'{article} {self.kind} ("{self.hint}", character {self.start + 1})'


class Form(NamedTuple):
    """One form that a secret takes: a pattern, and for some a test of what it matched."""

    kind: SecretKind
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = bool


def entropy(word: str) -> float:
    """Shannon entropy of a word's characters in bits a character."""
    return sum(n / len(word) * math.log2(len(word) / n) for n in Counter(word).values())


def is_random_hex(word: str) -> bool:
    """Whether hexadecimal digits look drawn by chance; 000...0 and plain decimal numbers do not."""
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word) and entropy(word) >= 3.0


def is_random_word(word: str) -> bool:
    """Whether letters and digits look drawn by chance, as in keys of base 62 or 64.

    Names made by people fall into words (``Owlv2BoxPredictionHead``: one piece for each 5 characters), chance changes
    between lower case, upper case and digits every second character. The limit of 0.38 pieces a character finds 95 %
    of random words of 24 characters, and none of the kernel and module names in the real traces of the tests.
    """
    plain = word.rstrip("=")
    separators = sum(not c.isalnum() for c in plain)
    if plain.startswith("_Z") or separators > len(plain) / 12:  # a mangled C++ name; a path or a name of many words
        return False
    kinds = any(c.islower() for c in plain) + any(c.isupper() for c in plain) + any(c.isdigit() for c in plain)
    pieces = re.findall("[A-Z]?[a-z]+|[A-Z]+|[0-9]+", plain)
    return kinds == 3 and len(pieces) >= 0.38 * len(plain) and entropy(plain) >= 3.5


def has_random_run(word: str) -> bool:
    """Whether some part of the word between - and _ is at least 16 long: ``sk-learn-digits`` is no key."""
    return max(len(part) for part in re.split("[-_]", word)) >= 16


def is_bearer_value(word: str) -> bool:
    """Whether what follows "Bearer" is a value and no English word."""
    value = word.rsplit(maxsplit=1)[-1]
    return len(value) >= 20 or any(c.isdigit() for c in value)


def is_given_value(text: str) -> bool:
    """Whether what follows the key's ``=`` is there, or what follows its colon holds letters and digits.

    After a colon comes prose as well ("the secret: measure first").
    """
    separator, value = _key_and_value(text)
    return separator == "=" or _mixes(value)


def is_token_value(text: str) -> bool:
    """Whether what follows "token" looks drawn by chance: models have tokens too (``pad_token: 50256``)."""
    _, value = _key_and_value(text)
    pieces = re.findall("[A-Z]?[a-z]+|[A-Z]+|[0-9]+", value)
    return _mixes(value) and (
        len(pieces) >= 0.3 * len(value) or (_HEX.fullmatch(value) is not None and is_random_hex(value))
    )


def _key_and_value(text: str) -> tuple[str, str]:
    """The separator after a key, and the value without its quotes."""
    _, separator, value = re.split("([=:])", text, maxsplit=1)
    return separator, value.strip(" \t\r\n\"',;")


def _mixes(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def is_address(text: str) -> bool:
    """Whether ``x@y.z`` is an address, and not an operator with its type or device (``conv2d@bf16.fast``)."""
    name, _, rest = text.rpartition("@")[2].partition(".")
    return _FIELD_WORD.fullmatch(name) is None or rest.lower() in _USUAL_ENDINGS or "." in rest


_HEX = re.compile("[0-9A-Fa-f]+")
_FIELD_WORD = re.compile(
    r"(?:bf|fp|tf|bfloat|float|int|uint|f|i|u|mxfp|nf)(?:4|8|16|32|64|128)\w{0,8}|half|double|amp"
    r"|cpu|gpu|cuda|hip|rocm|xpu|mps|sm_?\d{2,3}\w?|gfx\d{1,4}\w?",
    re.IGNORECASE,
)
_USUAL_ENDINGS = frozenset({"com", "org", "net", "edu", "gov", "io", "ai", "dev"})


def is_personal(path: str) -> bool:
    """Whether the last part of a home directory's path names a person."""
    return re.split(r"[\\/]", path)[-1].lower() not in {"shared", "public", "default", "all users"}


# A user's name in a path. It begins with a letter or digit, so that $USER, <name>, * and ... are not taken for one.
_NAME = r"""\w[^\s/\\:"'`<>|*?,;()\[\]{}]{0,63}"""
# Between a key and its value, as in a shell, in YAML and in JSON.
_GIVEN = r"""["']?\s{0,3}[=:]\s{0,3}["']?"""
_SLASH = r"[\\/]{1,2}"

FORMS: tuple[Form, ...] = (
    Form(
        "password",
        re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:]{0,64}:[^\s/@]{1,256}@"),
    ),
    Form(
        "password",
        re.compile(
            r"(?<![A-Za-z])(?:password|passwd|passphrase|(?:api|access|private|secret(?:[_-]?access)?)[_-]?key"
            r"|(?:access|auth|api|refresh|session)[_-]?token|client[_-]?secret|account[_-]?key)"
            rf"{_GIVEN}\S{{6,256}}",
            re.IGNORECASE,
        ),
        is_given_value,
    ),
    Form(
        "password",
        re.compile(rf"(?<![A-Za-z])(?:token|secret){_GIVEN}[\w.~+/=-]{{8,256}}", re.IGNORECASE),
        is_token_value,
    ),
    Form("access token", re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")),
    Form(
        "access token",
        re.compile(
            r"(?<![A-Za-z0-9])(?:"
            r"(?:hf|api_org)_[A-Za-z0-9]{16,}"  # Hugging Face
            r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"  # GitHub
            r"|glpat-[\w-]{16,}"  # GitLab
            r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{16,}"  # Slack
            r"|A(?:KIA|SIA)[A-Z0-9]{12,}"  # AWS
            r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}"  # Google
            r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}"
            r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
            r")"
        ),
    ),
    Form("access token", re.compile(r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{16,}"), has_random_run),
    Form("access token", re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]+)?", re.ASCII)),  # JSON web token
    Form("access token", re.compile(r"\bbearer\s{1,4}[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), is_bearer_value),
    Form(
        "e-mail address",
        # Not `x@self.weight` or `a@b.mean(0)`: in this field @ multiplies matrices.
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]{1,64}@(?!self\.)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[^\W\d_]{2,24}(?![\w(-])"
        ),
        is_address,
    ),
    Form(
        "home directory",  # Also below other directories (/nfs/home/x), but not within a web address or relative path.
        re.compile(
            rf"(?:(?<![\w.~/-])|(?<=file://))(?:/[\w.-]{{1,64}}){{0,6}}/(?:home|users)\d{{0,2}}/{_NAME}", re.IGNORECASE
        ),
        is_personal,
    ),
    Form("home directory", re.compile(r"(?:(?<![\w.~/-])|(?<=file://))(?:/var)?/root(?![\w.-])")),
    Form(
        "home directory",  # A Windows name may hold spaces; it surely ends where the next directory begins.
        re.compile(
            rf"(?<![A-Za-z])[A-Za-z]:{_SLASH}(?:Users|Documents and Settings){_SLASH}"
            rf"""(?:\w[^\r\n\t/\\:"'<>|*?]{{0,63}}(?=[\\/])|{_NAME})""",
            re.IGNORECASE,
        ),
        is_personal,
    ),
    Form("home directory", re.compile(r"(?<![\w/~.-])~[A-Za-z_][\w.-]{0,63}(?=/)")),
    # Not the doubled separators after a drive (C:\\data\\x) or within a path.
    Form(
        "network path",
        re.compile(
            r"(?<![^\W_])(?<!\\)(?<!(?<![A-Za-z])[A-Za-z]:)\\\\(?:\\\\)?[\w.-]{1,64}(?:@SSL)?\\{1,2}[\w$.-]{1,64}"
        ),
    ),
    Form("random text", re.compile(r"(?<![A-Za-z0-9])(?:0x)?[0-9A-Fa-f]{32,}(?![A-Za-z0-9])"), is_random_hex),
    Form("random text", re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_=-]{24,}"), is_random_word),
)


def _matches(text: str) -> Iterator[Secret]:
    for form in FORMS:
        for match in form.pattern.finditer(text):
            if form.holds(match[0]):
                yield Secret(form.kind, match[0], match.start())


def secrets_in(text: str) -> list[Secret]:
    """E-mail addresses, tokens, passwords in addresses, home directories and random words in a text.

    Returns:
        The finds in the order of the text. They do not overlap: of two that do, the one that starts first is kept,
        and of two that start together the longer.
    """
    kept: list[Secret] = []
    end = 0
    for secret in sorted(_matches(text), key=lambda s: (s.start, -len(s.found))):
        if secret.start >= end:
            kept.append(secret)
            end = secret.start + len(secret.found)
    return kept


def refuse_secrets(text: str, where: str) -> None:
    """Refuse a text that gives something away, without repeating all of it.

    Args:
        text: any text.
        where: what the text is, for the error line ("label", "`question`").

    Raises:
        StepprofError: the text holds a secret.
    """
    secrets = secrets_in(text)
    if secrets:
        raise StepprofError(
            f"{where} holds {' and '.join(secret.sentence for secret in secrets[:3])}",
            "text that can be shared, as traces and records are",
            " and ".join(dict.fromkeys(INSTEAD[secret.kind] for secret in secrets)),
        )
