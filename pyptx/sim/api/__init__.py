"""The face of the simulator: load a module, launch its entries, read what a run reports."""
