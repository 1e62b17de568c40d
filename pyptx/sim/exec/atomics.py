"""atom, red, red.async, multimem: nothing of it is modelled yet."""
