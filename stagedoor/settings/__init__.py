"""Settings: `base` for all, and one module each for production, development and the tests."""
