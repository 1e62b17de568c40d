"""Video instructions: nothing here is modelled yet."""
