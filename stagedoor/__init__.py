"""Composition: settings, addresses, start-up, and the embedded servers of `make run`."""

__version__ = "0.1.0"
