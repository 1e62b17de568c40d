"""The public interface of the simulator: loads a module, launches its entries, reports what a run found."""
