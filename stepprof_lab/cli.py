"""The command ``stepprof``: one function a verb, and no logic of its own.

Results go to stdout, progress and notices to stderr, an error is one line on stderr. Everything that takes time to
import is imported by the verb that needs it, so that ``--help`` answers at once and works without torch.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepprof_lab import __version__
from stepprof_lab.errors import StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

INTERRUPTED = 130
"""What a shell expects of a command that Ctrl-C ended."""

BUG = 70
"""Our own mistake (EX_SOFTWARE of sysexits.h): none of the documented codes."""

DEVICES = "auto, cpu, gpu, cuda or rocm"


class OneLine(click.Group):
    """Verbs in the order of the way of working, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order in which they were added."""
        return list(self.commands)


def usual(*, json: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that every verb has."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(
            function
        )
        function = click.option(
            "--plain",
            is_flag=True,
            default=lambda: os.environ.get("ACCESSIBLE", "") not in {"", "0"},
            help="Lines of 'name: value', no boxes, no redrawn progress (also: ACCESSIBLE=1).",
        )(function)
        if json:
            function = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(function)
        return function

    return add


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stepprof", message="%(prog)s %(version)s")
def stepprof() -> None:
    """Find out why a PyTorch step takes as long as it takes, without fooling yourself.

    Ask (new), capture four labelled steps (profile), interpret the trace (read), change one thing, validate outside
    the profiler (validate). Or see it all at once: demo.
    """


# --- small things that several verbs share --------------------------------------------------------------------------


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def err() -> Console:
    """The console for progress and notices."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object on stdout and nothing else."""
    from stepprof_lab.report.json import to_json

    click.echo(to_json(value).rstrip("\n"))


def notice(text: str) -> None:
    """A line on stderr."""
    click.echo(text, err=True)


def fresh_page(path: Path | None) -> None:
    """Refuse a report's name that is taken before the long work begins, not after it."""
    from stepprof_lab.files import name_is_taken

    if path is not None and path.exists():
        raise name_is_taken(path, "report")


class Share(click.ParamType):
    """A share: ``1%`` or ``0.01``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a number from 0 to 1."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            self.fail(f"{value!r} is no share; expected one like 1% or 0.01", param, ctx)
        if not 0 <= share < 1:
            self.fail(f"{value!r} is outside 0 to 100 %; expected a share like 1%", param, ctx)
        return share


class Seconds(click.ParamType):
    """A duration: ``60``, ``60s`` or ``2m``."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The duration in seconds."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        factor = {"s": 1.0, "m": 60.0}.get(text[-1:])
        try:
            seconds = float(text) if factor is None else float(text[:-1]) * factor
        except ValueError:
            self.fail(f"{value!r} is no duration; expected one like 60s or 2m", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(f"{value!r} is no duration above zero; expected one like 60s or 2m", param, ctx)
        return seconds


PATH = click.Path(path_type=Path)


# --- the verbs ------------------------------------------------------------------------------------------------------


@stepprof.command()
@click.option("--require", type=click.Choice(["gpu"]), help="Exit 3 where GPU activity cannot be collected.")
@click.option("--probe/--no-probe", default=True, help="Make a probe capture in a child process (default: yes).")
@usual(json=True)
def doctor(require: str | None, probe: bool, as_json: bool, plain: bool) -> None:
    """What can be measured on this machine, and what stands in the way."""
    from stepprof_lab import doctor as room

    diagnosis = room.examine(probe=probe)
    if as_json:
        print_json(diagnosis)
    else:
        from stepprof_lab.report.text import show_diagnosis

        show_diagnosis(diagnosis, out(), plain=plain)
    if require == "gpu":
        room.demand_gpu(diagnosis)


@stepprof.command()
@click.argument("trace", type=PATH)
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@click.option("--svg", type=PATH, metavar="FILE", help="Write the timeline as a picture.")
@usual(json=True)
def read(trace: Path, html: Path | None, svg: Path | None, as_json: bool, plain: bool) -> None:
    """Interpret a trace of torch.profiler (.json or .json.gz), ours or anyone's.

    Where the record of a capture lies beside the trace, its question heads the report. Works without torch.
    """
    from stepprof_lab import record as records

    fresh_page(html)
    fresh_page(svg)
    interpretation, record = records.read(trace)
    write_pictures(html, svg, interpretation=interpretation, record=record)
    if as_json:
        print_json(interpretation.analysis)
    else:
        from stepprof_lab.report.text import show_analysis

        show_analysis(interpretation.analysis, out(), record=record, plain=plain)


def write_pictures(html: Path | None, svg: Path | None, **parts: Any) -> None:
    """Write the page and the timeline that were asked for."""
    from stepprof_lab.files import write_new

    if svg is not None:
        from stepprof_lab.report.svg import timeline_svg

        interpretation = parts["interpretation"]
        picture = timeline_svg(interpretation.timeline, findings=interpretation.analysis.findings)
        write_new(svg, picture.encode(), "picture")
        notice(f"picture: {svg}")
    if html is not None:
        from stepprof_lab.report.html import page

        write_new(html, page(**parts).encode(), "report")
        notice(f"report: {html}")


# --- running it -----------------------------------------------------------------------------------------------------


def explain(error: click.ClickException) -> StepprofError:
    """A mistake in the arguments, in the form of every other error."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "stepprof"
    return StepprofError(error.format_message().rstrip("."), f"the arguments of {command}", f"see {command} --help")


def report_error(error: StepprofError) -> int:
    """Print the one line, then what belongs under it; returns the exit code."""
    notice(f"stepprof: error: {error}")
    if error.detail:
        notice(error.detail.rstrip("\n"))
    return error.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: what stands after ``stepprof`` on the command line; None takes it from there.

    Returns:
        The exit code: 0 done, 2 input or arguments cannot be used, 3 not available, 4 the answer is no.
    """
    # Every profiler session prints two lines of its own to stderr; from this level on it does not.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        result = stepprof.main(given, prog_name="stepprof", standalone_mode=False)
    except StepprofError as error:
        if debug:
            traceback.print_exc()
        return report_error(error)
    except click.exceptions.NoArgsIsHelpError as error:
        notice(error.format_message())
        return StepprofError.exit_code
    except click.ClickException as error:
        return report_error(explain(error))
    except (KeyboardInterrupt, click.Abort):
        notice("stepprof: interrupted; nothing half-written was left")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe went away (| head): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        notice(
            f"stepprof: error: a mistake of stepprof itself ({type(error).__name__}: {error}); expected none; "
            "please report it with the output of the same command and --debug"
        )
        return BUG
    return result if isinstance(result, int) else 0
