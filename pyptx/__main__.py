"""``python -m pyptx``: the ``pyptx`` command line of this interpreter."""

from __future__ import annotations

from .tools.cli import main

if __name__ == "__main__":
    main()
