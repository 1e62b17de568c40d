"""The stepper: runs a launch instruction by instruction, stops, and shows the state of the machine."""
