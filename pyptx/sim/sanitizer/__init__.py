"""The sanitizer: happens-before over threads and engines, shadow memory, and the findings of races."""
