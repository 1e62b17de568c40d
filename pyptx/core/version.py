"""The version of this package, for rooms that may not import the public face."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
