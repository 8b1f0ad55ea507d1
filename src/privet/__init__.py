"""Learn from private data with the help of public data, under differential privacy."""

__version__ = "0.1.0"
