"""nanosleep, griddepcontrol, clusterlaunchcontrol, setmaxnreg, the stack: nothing of it is modelled yet."""
