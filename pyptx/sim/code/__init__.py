"""Prepares a module to run: variables in memory, functions as blocks, blocks as generated Python."""
