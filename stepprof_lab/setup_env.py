"""Make ``.venv`` and install this project into it, with the build of torch that fits the machine.

Run by the Makefile as ``python3 -I stepprof_lab/setup_env.py EXTRA``, before anything is installed: it uses the
standard library alone, and no syntax newer than the oldest Python that it has to refuse politely.

Which torch (`torch_plan`):

- one that the Python in use has already is kept, in whatever version and build, and seen from ``.venv`` by a path
  file (``make PYTHON=/path/to/python``, or a ``python3`` that brings its own);
- with an NVIDIA GPU in sight: the build of the package index, which is the CUDA one on Linux;
- with none: a CPU build, some 4 GB less to load; first from the sources that pip is configured with, then from
  PyTorch's own index of CPU builds;
- with an AMD GPU in sight: never a CUDA build. ROCm builds have an index for each ROCm release, so the one that fits
  is asked for (``make TORCH_INDEX=...`` or ``PYTHON=``); without an answer a CPU build is installed, and that is said.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 6)
ORIGIN = ".stepprof-python"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class SetupError(Exception):
    """One line: what is wrong and what to do next."""


def say(text: str) -> None:
    """A line of progress, on stderr: stdout belongs to the command that runs afterwards."""
    print("setup: " + text, file=sys.stderr, flush=True)


# --- what the machine has -------------------------------------------------------------------------------------------


def gpu_vendors() -> set[str]:
    """The makers of the GPUs in sight: a set of "nvidia" and "amd". Looks at the system, needs no torch."""
    found = set()
    if os.path.exists("/proc/driver/nvidia/gpus") and os.listdir("/proc/driver/nvidia/gpus"):
        found.add("nvidia")
    elif shutil.which("nvidia-smi"):
        try:
            listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
            if listing.returncode == 0 and "GPU " in listing.stdout:
                found.add("nvidia")
        except (OSError, subprocess.SubprocessError):
            pass
    # The compute driver of AMD makes /dev/kfd; a machine with an AMD processor alone has none.
    if os.path.exists("/dev/kfd"):
        found.add("amd")
    return found


def torch_of(python: str) -> str | None:
    """Version of the torch that a Python has, as text, or None. Read from its metadata: torch is not imported."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def version_of(python: str) -> tuple[int, ...]:
    """(major, minor) of a Python, or a SetupError that says why it cannot be used."""
    try:
        code = "import sys; print(*sys.version_info[:2])"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        version = tuple(int(part) for part in found.stdout.split())
    except (OSError, ValueError):
        version = ()
    if len(version) != 2:
        raise SetupError("PYTHON={} cannot be run; give the path of a Python 3.10 or newer".format(python))
    if version < OLDEST_PYTHON:
        raise SetupError(
            "{} is Python {}.{}; 3.10 or newer is needed: make PYTHON=/path/to/python3.12 ...".format(python, *version)
        )
    return version


# --- which torch ----------------------------------------------------------------------------------------------------


def numbers(version: str) -> tuple[int, ...]:
    """(2, 13) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".")[:2])


def torch_plan(
    present: str | None, vendors: set[str], pinned: str, index: str | None = None, system: str | None = None
) -> tuple[str, list[list[str]]]:
    """What to do about torch.

    Args:
        present: version of the torch that the Python in use has, or None.
        vendors: what `gpu_vendors` found.
        pinned: the version to install where there is none ("2.13.0").
        index: an index that the user named for torch, or None.
        system: "Linux", "Darwin" or "Windows"; None looks.

    Returns:
        (sentence, attempts): why, in words; and lists of pip arguments to be tried in order until one succeeds
        (empty: torch is there and stays as it is).
    """
    system = system or platform.system()
    if present:
        if numbers(present) < OLDEST_TORCH:
            raise SetupError(
                "torch {} is installed; 2.6 or newer is needed: upgrade it, or give another PYTHON=".format(present)
            )
        return "torch {} is here and is kept as it is".format(present), []
    plain, cpu = "torch=={}".format(pinned), "torch=={}+cpu".format(pinned)
    if index:
        return "torch {} from the index that was given".format(pinned), [["--index-url", index, plain]]
    if system == "Darwin":
        return "torch {} for macOS".format(pinned), [[plain]]
    if "amd" in vendors:
        why = (
            "an AMD GPU is in sight: no CUDA build is installed, and which ROCm build fits only you know. "
            "Going on with a CPU build; for the GPU: make PYTHON=/python/with/rocm/torch, or "
            "make TORCH_INDEX=<index of your ROCm release>"
        )
    elif "nvidia" in vendors:
        return "an NVIDIA GPU is in sight: torch {} with CUDA".format(pinned), [[plain]]
    else:
        why = "no GPU in sight: a CPU build of torch {}".format(pinned)
    return why, [[cpu], ["--index-url", CPU_INDEX, cpu]]


def pinned_torch(constraints: str) -> str:
    """The version of torch that the constraints file names."""
    for line in constraints.splitlines():
        if line.startswith("torch=="):
            return line.split("==")[1].split(";")[0].strip()
    raise SetupError("constraints.txt names no version of torch; restore the file")


def without(constraints: str, names: set[str]) -> str:
    """The constraints without the lines about some packages (those are kept as the given Python has them)."""
    kept = []
    for line in constraints.splitlines():
        name = line.split("==")[0].strip().lower().replace("_", "-")
        if name not in names:
            kept.append(line)
    return "\n".join(kept) + "\n"


# --- doing it -------------------------------------------------------------------------------------------------------


def venv_python(venv: str) -> str:
    """The interpreter inside a virtual environment."""
    below = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(venv, *below)


def made_with(venv: str) -> str | None:
    """The Python that an environment was made with, or None where there is no working one of ours."""
    origin = os.path.join(venv, ORIGIN)
    if not os.path.exists(origin) or not os.path.exists(venv_python(venv)):
        return None
    with open(origin, encoding="utf-8") as stream:
        return stream.read()


def make_venv(python: str, venv: str) -> None:
    """Make the virtual environment, or say which package of the system is missing."""
    if os.path.exists(venv):
        if not os.path.exists(os.path.join(venv, ORIGIN)):
            raise SetupError("{} is there and not of our making; move it away first".format(os.path.relpath(venv)))
        shutil.rmtree(venv)
    say("making {} with {}".format(os.path.relpath(venv), python))
    # Signed before it is filled, so that one whose making was interrupted is known for ours.
    os.makedirs(venv)
    with open(os.path.join(venv, ORIGIN), "w", encoding="utf-8") as stream:
        stream.write(python)
    made = subprocess.run([python, "-m", "venv", venv], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        return
    shutil.rmtree(venv, ignore_errors=True)
    if "ensurepip" in made.stdout + made.stderr or "No module named venv" in made.stderr:
        raise SetupError("this Python has no venv; on Debian and Ubuntu: sudo apt install python3-venv")
    raise SetupError("python -m venv failed: " + (made.stderr or made.stdout).strip().replace("\n", " "))


def see_packages_of(python: str, venv: str) -> None:
    """Let the environment see the packages of the Python that it was made from (also where that is a venv itself)."""
    code = (
        "import site, sysconfig as s; "
        "paths = [s.get_path('purelib'), s.get_path('platlib'), *site.getsitepackages()]; "
        "paths += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []; "
        "print('\\n'.join(dict.fromkeys(paths)))"
    )
    theirs = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours = subprocess.run([venv_python(venv), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    with open(os.path.join(ours, "packages_of_given_python.pth"), "w", encoding="utf-8") as stream:
        stream.write(theirs)


def packages_of(python: str) -> set[str]:
    """Names of the packages that a Python has, lower case with dashes."""
    code = "import importlib.metadata as m; print('\\n'.join(str(d.metadata['Name']) for d in m.distributions()))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    return {name.lower().replace("_", "-") for name in found.split()}


def pip(venv: str, *arguments: str) -> bool:
    """Run pip with its own progress shown on stderr; True where it succeeded."""
    command = [venv_python(venv), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if sys.stderr.isatty():
        command.remove("--quiet")
    return subprocess.run(command + list(arguments), stdout=sys.stderr, check=False).returncode == 0


def try_torch(venv: str, pins: str, arguments: list[str]) -> bool:
    """Install torch from one source; a source that does not have it is passed over without pip's red lines."""
    probe = [venv_python(venv), "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    asked = subprocess.run([*probe, "--constraint", pins, *arguments], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        say(
            "{} is not to be had from {}".format(arguments[-1], arguments[1] if len(arguments) > 1 else "pip's sources")
        )
        return False
    say("installing {} (the long part)".format(arguments[-1]))
    return pip(venv, "--constraint", pins, *arguments)


def install(venv: str, extra: str, constraints: str, torch_attempts: list[list[str]]) -> None:
    """Install torch as planned, then the project with one of its extras, editable."""
    handle, pins = tempfile.mkstemp(prefix="stepprof-constraints-", suffix=".txt")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(constraints)
        if torch_attempts and not any(try_torch(venv, pins, attempt) for attempt in torch_attempts):
            raise SetupError("torch cannot be installed (see above); give PYTHON= with a torch of your own")
        say("installing stepprof_lab[{}]".format(extra))
        if not pip(venv, "--constraint", pins, "--editable", "{}[{}]".format(ROOT, extra)):
            raise SetupError("the installation failed (pip says why above); run the same command again to go on")
    finally:
        os.unlink(pins)


def stamp(extra: str, python: str, constraints: str, present: str | None) -> str:
    """What an environment was made from: as long as it stays the same there is nothing to do."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as stream:
        made_of = (extra, python, constraints, present, stream.read(), ROOT)
    return hashlib.sha256(repr(made_of).encode()).hexdigest()


def set_up(extra: str, python: str, venv: str, index: str | None) -> None:
    """Make or complete the environment; does nothing where it is complete already."""
    version_of(python)
    with open(os.path.join(ROOT, "constraints.txt"), encoding="utf-8") as stream:
        constraints = stream.read()
    present = torch_of(python)
    wanted = stamp(extra, python, constraints, present)
    mark = os.path.join(venv, ".stepprof-" + extra)
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as stream:
            if stream.read() == wanted and os.path.exists(venv_python(venv)):
                return
    if made_with(venv) != python:
        make_venv(python, venv)
    pinned = pinned_torch(constraints)
    if present:
        see_packages_of(python, venv)
        constraints = without(constraints, packages_of(python))
    sentence, attempts = torch_plan(torch_of(venv_python(venv)), gpu_vendors(), pinned, index)
    say(sentence)
    install(venv, extra, constraints, attempts)
    with open(mark, "w", encoding="utf-8") as stream:
        stream.write(wanted)


def main(arguments: list[str] | None = None) -> int:
    """Set up one extra; exit code 2 and one line where that is not possible."""
    parser = argparse.ArgumentParser(description="Make .venv and install stepprof_lab into it.")
    parser.add_argument("extra", help="which extra of pyproject.toml: demo, dev, site")
    parser.add_argument("--python", default="", help="the Python to build on; its torch is kept")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"))
    parser.add_argument("--torch-index", default="", help="package index to take torch from")
    asked = parser.parse_args(arguments)
    try:
        # Without PYTHON= an environment stays on the Python that it was made with.
        python = shutil.which(asked.python) if asked.python else made_with(asked.venv) or sys.executable
        if not python:
            raise SetupError("PYTHON={} is not there; give the path of a Python 3.10 or newer".format(asked.python))
        set_up(asked.extra, os.path.abspath(python), os.path.abspath(asked.venv), asked.torch_index or None)
    except SetupError as error:
        say("error: {}".format(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted; run the same command again to go on")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
