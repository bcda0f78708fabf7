#!/usr/bin/env python
"""The command `stagedoor`, from a checkout."""

from stagedoor.__main__ import main

if __name__ == "__main__":
    main()
