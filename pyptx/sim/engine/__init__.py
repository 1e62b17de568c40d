"""Asynchronous operations as events, and the waits of threads."""
