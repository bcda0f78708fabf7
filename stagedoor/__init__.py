"""Composition: settings, addresses, start-up, and the embedded servers of `make run`."""
