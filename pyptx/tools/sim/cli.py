"""The command ``pyptx sim FILE``: reads the options, runs the launches, and prints the reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from ...core.errors import ParseError, PyptxError, SpecError, UnsupportedError
from ...core.findings import Verdict
from ...sim import LoadedModule, Report, Stream
from ..finding_rows import parse_waiver
from ..timeline import check_timeline_name, write_timeline
from .arguments import NamedArgument, parse_named
from .bind import LaunchArray, bind
from .config import LaunchConfig, read_config
from .show import array_objects, progress_line, report_object, show_arrays, show_report
from .target import LaunchableKernel, find_target

__all__ = ["command", "extents_of", "parse_extent", "parse_array", "run_launches"]

_STATUS = {Verdict.CLEAN: 0, Verdict.REVIEW: 0, Verdict.ERROR: 1, Verdict.INCOMPLETE: 2}
#: Exit status if the command line is wrong.
_USAGE = 3


class _WrongUseError(click.UsageError):
    exit_code = _USAGE


class _Command(click.Command):
    """A click command that exits with status 3 for a wrong command line, since 2 means an incomplete run."""

    def make_context(self, *args: Any, **keywords: Any) -> click.Context:
        try:
            return super().make_context(*args, **keywords)
        except click.UsageError as error:
            raise _WrongUseError(error.format_message(), error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _WrongUseError(error.format_message(), ctx) from None
        except (SpecError, ParseError) as error:
            _say(error)
            raise SystemExit(_USAGE) from None
        except UnsupportedError as error:
            _say(error)
            raise SystemExit(_STATUS[Verdict.INCOMPLETE]) from None
        except PyptxError as error:
            _say(error)
            raise SystemExit(_STATUS[Verdict.ERROR]) from None


def _say(error: PyptxError) -> None:
    """Print the error on one line, without a line of Python, since the mistake is on the command line."""
    where = f"{error.location}: " if isinstance(error, ParseError) else ""
    hint = f" ({error.hint})" if error.hint else ""
    click.echo(f"Error: {where}{error.message}{hint}", err=True)


@click.command(cls=_Command)
@click.argument("file", required=False, metavar="FILE.ptx|-|FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option(
    "--entry",
    help="The kernel, if there are several: its name, or a part of its C++ name (axpy<4>) that is unique.",
)
@click.option("--grid", metavar="X[,Y[,Z]]", help="CTAs of the grid.")
@click.option("--block", metavar="X[,Y[,Z]]", help="Threads of a CTA. Default: the kernel's .reqntid.")
@click.option("--cluster", metavar="X[,Y[,Z]]", help="CTAs of a cluster.")
@click.option("--smem", type=click.IntRange(0), metavar="BYTES", help="Dynamic shared memory.")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="An argument, in the order of the parameters: 7, f32:1.5, x.npy, x.npy:y.npy, zeros:f32[128], "
    "random:f32[64,64]@1, full:f32[8]=2, arange:s32[8], empty:f32[8], the NAME of another array, or "
    "map:NAME,box=64x32,swizzle=128B.",
)
@click.option(
    "--array", "arrays", multiple=True, metavar="NAME=VALUE", help="An array that only tensor maps use."
)
@click.option(
    "--out", "outs", multiple=True, metavar="NAME=FILE", help="Write the array NAME to FILE after the run."
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with the launch; options override its keys.",
)
@click.option(
    "--schedule",
    help="eager (default), late, random, weak (random with weak reads), starve:tma|mma|ld|st|cp, sampled, "
    "all, or replay:... sampled runs eager, late, starve for each engine in use, and random; all explores "
    "every interleaving that differs in what threads compete for. The verdict is the worst of all runs.",
)
@click.option(
    "--seed",
    type=int,
    help="Seed of the random and the weak schedule; under sampled, of the first random run.",
)
@click.option(
    "--seeds", type=click.IntRange(0), help="Number of random runs under --schedule sampled. Default: 3."
)
@click.option(
    "--max-runs",
    type=click.IntRange(1),
    help="Number of runs of --schedule all, or of --launch-control every. Default: 1000.",
)
@click.option(
    "--resume",
    metavar="FILE",
    help="Keep in FILE what --schedule all has explored, and continue there if FILE exists.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Number of processes for --schedule all. Default: this one."
)
@click.option(
    "--launch-control",
    metavar="every|0,2,1/3",
    help="For kernels that cancel clusters: run every assignment, or one: clusters 0 and 3 start, and the "
    "requests of cluster 0 get cluster 2, then 1. Default: the schedule decides.",
)
@click.option("--strict", is_flag=True, default=None, help="Count findings for review as errors.")
@click.option(
    "--sanitize/--no-sanitize",
    default=None,
    help="Look for accesses that nothing orders (default), or run without the sanitizer, which is faster.",
)
@click.option(
    "--waive",
    "waivers",
    multiple=True,
    metavar="RULE@FILE:LINE=REASON",
    help="Accept the findings of a rule at a line; the report counts them. May be repeated.",
)
@click.option(
    "--max-steps", type=click.IntRange(1), help="End the run as incomplete after this many warp-instructions."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End the run as incomplete after this time.",
)
@click.option(
    "--memory",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Host memory for the threads that run at once; if it is too small, fewer CTAs run at once.",
)
@click.option(
    "--check/--no-check",
    default=True,
    help="Refuse instructions that the text's .target or .version lacks (default), or run them.",
)
@click.option(
    "--debug", is_flag=True, help="Step through the run at a prompt, as pdb does; `help` lists the commands."
)
@click.option(
    "--timeline",
    "timeline_file",
    type=click.Path(path_type=Path),
    help="Write what happened in the run: FILE.html is a page for a browser, FILE.json for pyptx timeline.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/sim.md has its keys).")
@click.option("--progress/--no-progress", default=None, help="Show progress. Default: on a terminal.")
def command(
    file: str | None,
    words: tuple[str, ...],
    args: tuple[str, ...],
    arrays: tuple[str, ...],
    outs: tuple[str, ...],
    overwrite: bool,
    config: Path | None,
    waivers: tuple[str, ...],
    check: bool,
    debug: bool,
    timeline_file: Path | None,
    as_json: bool,
    progress: bool | None,
    **settings: Any,
) -> None:
    """Run a kernel in the simulator.

    FILE is PTX text from any compiler (- is standard input). Options give its launch:

    \b
        pyptx sim saxpy.ptx --grid 8 --block 128 --arg random:f32[1000]@1 \\
            --arg y=zeros:f32[1000] --arg 1000 --arg 2.5 --out y=y.npy

    Or FILE is FILE.py:NAME with VALUE and NAME=VALUE, as for `pyptx emit`. Such a kernel has its own launch.
    Without --arg, its inputs are random arrays and its outputs are empty arrays.

    Exit status: 0 clean or review, 1 error, 2 incomplete, 3 if the command line is wrong.
    """
    launch_config = LaunchConfig() if config is None else read_config(config)
    if file is not None:
        launch_config.file, launch_config.words = file, words
    if launch_config.file is None:
        raise click.UsageError("no FILE was given: expected PTX text, - for standard input, or FILE.py:NAME")
    launch_config.replace_args([parse_named(text) for text in args])
    launch_config.arrays += [parse_array(text) for text in arrays]
    for text in outs:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--out {text}: expected NAME=FILE, such as y=y.npy")
        if Path(path).suffix not in (".npy", ".bin"):
            raise click.UsageError(f"--out {text}: expected a file name that ends with .npy or .bin")
        launch_config.outs[name] = Path(path)
    for key, value in settings.items():
        if value is not None:
            extent = key in ("grid", "block", "cluster")
            launch_config.settings[key] = parse_extent(key, value) if extent else value
    if waivers:
        known = launch_config.settings.get("waivers", [])
        launch_config.settings["waivers"] = [*known, *map(parse_waiver, waivers)]
    if timeline_file is not None:
        check_timeline_name(timeline_file, overwrite)
        launch_config.settings["timeline"] = True
    buffers, reports = run_launches(
        launch_config, overwrite, False if debug else progress, check, debug=debug
    )
    for buffer in buffers:
        buffer.write()
    if timeline_file is not None:
        # Under the schedule sampled, each run has its timeline: the first is that of the eager run.
        drawn = (reports[0].runs[0] if reports[0].runs else reports[0]).timeline
        if drawn is not None:
            write_timeline(drawn, timeline_file)
    if as_json:
        objects = [report_object(report) for report in reports]
        made = {**objects[0], "then": objects[1:]} if launch_config.then else objects[0]
        click.echo(json.dumps({**made, "arrays": array_objects(buffers)}, indent=2))
    else:
        for report in reports:
            show_report(report)
        show_arrays(buffers)
    raise SystemExit(max(_STATUS[report.verdict] for report in reports))


def parse_array(text: str) -> NamedArgument:
    """Return the array of an option ``--array NAME=VALUE``. Raises click's UsageError for other text."""
    named = parse_named(text)
    if named.name is None:
        raise click.UsageError(f"--array {text}: expected NAME=VALUE, such as a=zeros:f32[64]")
    return named


def parse_extent(name: str, text: str) -> tuple[int, ...]:
    """Return the numbers of an option such as ``--grid 4,2``. Raises click's UsageError for other text."""
    try:
        return tuple(int(word) for word in text.replace("x", ",").split(","))
    except ValueError:
        raise click.UsageError(f"--{name} {text}: expected 4, 4,2 or 4,2,1") from None


def run_launches(
    launch_config: LaunchConfig,
    overwrite: bool,
    shown: bool | None,
    check: bool,
    modules: dict[tuple[str, tuple[str, ...]], LoadedModule] | None = None,
    *,
    debug: bool = False,
) -> tuple[list[LaunchArray], list[Report]]:
    """Run the launches of one stream, and return their arrays and a report for each launch.

    ``modules`` gets the modules that were loaded, by file and values. ``debug`` steps through the run.
    """
    settings = launch_config.settings
    launches = [launch_config, *launch_config.then]
    stream = Stream()
    buffers: dict[str, LaunchArray] = {}
    modules = {} if modules is None else modules
    for number, launch in enumerate(launches):
        source = launch if launch.file is not None else launch_config
        assert source.file is not None
        words = launch.words or source.words
        if number and source.file == "-":
            raise SpecError(
                "standard input can be read only once: for several launches, give a file name instead of '-'"
            )
        target = find_target(source.file, words, launch.settings.get("entry"), check=check)
        extents = extents_of(target, launch.settings)
        # The option --out may name an array of any launch, so it is applied with the last one.
        outs = launch_config.outs if number == len(launches) - 1 else {}
        bound = bind(
            target.entry,
            target.parameters,
            launch.args,
            launch.arrays,
            outs,
            known=buffers,
            overwrite=overwrite,
        )
        buffers = bound.buffers
        fresh = [place for place, parameter in enumerate(target.places) if parameter in bound.fresh]
        stream.launch(
            modules.setdefault((source.file, words), target.loaded),
            target.entry,
            **extents,
            args=target.pack(bound.values),
            uninitialized=fresh,
            dependent=launch.settings.get("dependent", False),
        )
    options = (
        *("seeds", "max_steps", "timeout", "memory", "max_runs", "resume", "waivers", "timeline"),
        "launch_control",
    )
    given = {name: settings[name] for name in options if name in settings}
    with progress_line(shown) as progress, _processes(settings.get("jobs")) as executor:
        reports = stream.run(
            schedule=settings.get("schedule", "eager"),
            seed=settings.get("seed", 0),
            sanitize=_sanitize(settings),
            **given,
            progress=progress,
            executor=executor,
            debug=debug,
        )
    return list(buffers.values()), reports


@contextmanager
def _processes(jobs: int | None) -> Iterator[Executor | None]:
    """Yield an executor with ``jobs`` processes, or None for one job."""
    if jobs is None or jobs == 1:
        yield None
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as executor:
        yield executor


def _sanitize(settings: dict[str, Any]) -> bool | str:
    """Return the option ``sanitize`` of the run."""
    sanitize: bool = settings.get("sanitize", True)
    if not settings.get("strict"):
        return sanitize
    if not sanitize:
        raise SpecError("--strict and --no-sanitize exclude each other: leave one of them out")
    return "strict"


def extents_of(target: LaunchableKernel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return grid, block, cluster and dynamic shared memory: the kernel's own, or those of the options.

    Args:
        target: the kernel.
        settings: the options that were given, by their names on the command line.

    Raises:
        SpecError: the launch is not complete, or the kernel defines an extent itself.
    """
    if target.launch is not None:
        known = target.launch
        given = [key for key in ("grid", "block", "cluster", "smem") if key in settings]
        if given:
            raise SpecError(f"{target.entry} defines its {given[0]} itself: leave --{given[0]} out")
        return {
            "grid": known.grid,
            "block": known.block,
            "cluster": known.cluster,
            "dynamic_smem": known.dynamic_smem,
        }
    block = settings.get("block", target.block)
    examples = (("--grid 4,2", settings.get("grid")), ("--block 128", block))
    missing = [example for example, value in examples if not value]
    if missing:
        raise SpecError(
            f"the launch of {target.entry} is not complete: give, for example, {' '.join(missing)}"
        )
    return {
        "grid": settings["grid"],
        "block": block,
        "cluster": settings.get("cluster", (1, 1, 1)),
        "dynamic_smem": settings.get("smem", 0),
    }
