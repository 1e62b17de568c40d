"""Decides whether what one run showed holds for every schedule, and lists what competes."""
