"""The hardware's units, one module each: typed wrappers of one instruction, and what they share.

Units read the recording below them and each other; nothing of the recording reads a unit.
"""
