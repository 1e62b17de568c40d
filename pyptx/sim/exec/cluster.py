"""Cluster barriers, mapa, getctarank, isspacep: nothing of it is modelled yet."""
