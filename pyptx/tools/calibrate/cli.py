"""``pyptx calibrate``: measures this machine's GPU, and writes its file of constants."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from ...core.errors import LaunchError, SpecError
from ...timing.constants import gpu, gpu_for, write
from .calibration import Calibration, calibrate, families_of
from .device import Device
from .hardware import GpuDevice
from .predicted import PredictedDevice

__all__ = ["command"]


def _shown(found: Calibration, families: dict[str, tuple[str, ...]]) -> list[str]:
    """Return what is told at the end: what was measured, what failed, and what keeps the base's value."""
    lines = [f"measured {len(found.measured)} of {len(found.gpu.constants)} constants"]
    lines += [f"failed: {name}: {why}" for name, why in found.failed.items()]
    measurable = {name for names in families.values() for name in names}
    missed = [name for name in found.kept if name in measurable]
    never = [name for name in found.kept if name not in measurable]
    if missed:
        lines.append("not measured this time: " + ", ".join(missed))
    if never:
        lines.append("no microbenchmark measures: " + ", ".join(never))
    return lines


@click.command()
@click.option(
    "--gpu-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("gpu.json"),
    show_default=True,
    help="The file of constants to write.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="A family of microbenchmarks, or one of them by its name; several times for several.",
)
@click.option(
    "--base",
    default=None,
    metavar="GPU",
    help="b200, h200 or a file: constants that are not measured. "
    "By default those of the package for this architecture.",
)
@click.option("--device", "index", type=int, default=0, show_default=True, help="Number of the GPU.")
@click.option(
    "--predicted",
    default=None,
    metavar="GPU",
    help="Measure the timed machine with these constants (b200, h200 or a file) in the place of a GPU.",
)
@click.option("--restart", is_flag=True, help="Forget what an interrupted calibration has found.")
def command(
    gpu_file: Path, only: tuple[str, ...], base: str | None, index: int, predicted: str | None, restart: bool
) -> None:  # fmt: skip
    """Measure the constants of a GPU's timing with kernels.

    Every constant that a microbenchmark measures gets its value, interval and source; the others keep those
    of the base. What was found is kept in GPU_FILE.partial until all is done: an interrupted calibration goes
    on.

    \b
        pyptx calibrate --gpu-file my_b200.json
        pyptx predict kernel.py --gpu my_b200.json

    Exit status: 1 if there is no GPU, or a microbenchmark failed.
    """
    try:
        device: Device = GpuDevice(index) if predicted is None else PredictedDevice(gpu(predicted))
    except LaunchError as error:
        error.hint = "run it where the GPU is; --predicted h200 measures the timed machine instead"
        raise
    start = gpu_for(device.target) if base is None else gpu(base)
    if start is None:
        raise SpecError(f"there are no constants of a GPU of {device.target}", hint="give a file with --base")
    partial = gpu_file.with_name(gpu_file.name + ".partial")
    if restart:
        partial.unlink(missing_ok=True)
    today = datetime.date.today().isoformat()
    found = calibrate(
        device,
        start,
        name=gpu_file.stem,
        date=today,
        only=only,
        partial=partial,
        progress=lambda text: click.echo(text, err=True),
    )
    write(found.gpu, gpu_file)
    if not found.failed:
        partial.unlink(missing_ok=True)
    names = {
        family: tuple(name for each in benchmarks for name in each.constants)
        for family, benchmarks in families_of(device.target).items()
    }
    click.echo("\n".join(_shown(found, names)))
    click.echo(f"wrote {gpu_file}")
    if found.failed:
        raise SystemExit(1)
