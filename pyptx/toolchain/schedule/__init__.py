"""What each PTX statement costs in machine code, by the schedule that ptxas wrote into it.

``statements`` assembles a kernel so that each machine instruction names its statement, and ``products`` tells
the products of a batch apart. ``graph`` has the control flow of the machine code, ``warp`` the times at which
a warp issues it. ``shares`` says which statement pays for which instruction, and ``costs`` adds up.
"""
