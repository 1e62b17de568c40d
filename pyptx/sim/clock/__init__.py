"""The timed machine: what happens when, by the resources of a GPU that every event takes."""
