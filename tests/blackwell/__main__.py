"""Every matrix product of ``examples/blackwell`` in one table: ``python -m tests.blackwell [NAME ...]``.

Each kernel is assembled for 4096 x 4096 x 4096 and sm_100a, and run in the simulator at a small size.
"""

from __future__ import annotations

import click

from .registry import PRODUCTS
from .rows import HEADS, row


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([product.name for product in PRODUCTS]))
def main(names: tuple[str, ...]) -> None:
    """Print a row for each kernel, or for those that are named."""
    click.echo(f"| {' | '.join(HEADS)} |\n|{'---|' * 2}{'--:|' * 7}{'---|--:|'}")
    for product in PRODUCTS:
        if not names or product.name in names:
            click.echo(f"| {' | '.join(row(product).cells())} |")


if __name__ == "__main__":
    main()
