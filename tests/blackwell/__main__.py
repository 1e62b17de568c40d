"""Every matrix product of ``examples/blackwell`` in one table: ``python -m tests.blackwell [NAME ...]``.

Each kernel is assembled for 4096 x 4096 x 4096 and B200, B300 and both by one text, and run in the simulator at a small size.  Below the table
stands which forms and fields no other kernel proves (docs/evidence.md), with the kernels that have them.
"""

from __future__ import annotations

import click

from .evidence.listing import listing
from .registry import PRODUCTS, VARIANTS
from .rows import HEADS, row
from .runs import simulated


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([product.name for product in PRODUCTS]))
@click.option("--every", is_flag=True, help="Also list what is proven, with the kernels that prove it.")
@click.option(
    "--variants", is_flag=True, help="List further types, majors and epilogues, too; without a row."
)
def main(names: tuple[str, ...], every: bool, variants: bool) -> None:
    """Print a row for each kernel, or for those that are named, and the list of what is unproven."""
    click.echo(f"| {' | '.join(HEADS)} |\n|{'---|' * 3}{'--:|' * 7}{'---|--:|--:|'}")
    rows = []
    for product in PRODUCTS:
        if not names or product.name in names:
            rows.append(row(product))
            click.echo(f"| {' | '.join(rows[-1].cells())} |")
    facts = {each.product.name: each.facts for each in rows}
    for product in VARIANTS if variants else ():
        facts[product.name] = simulated(product, sanitize=False).facts
    for line in listing(facts, every):
        click.echo(line)


if __name__ == "__main__":
    main()
