"""Asynchronous operations as events, and what threads wait for."""
