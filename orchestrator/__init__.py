"""Everything that acts: processes, requests, measurements. Imports point from here to adapters."""

__version__ = "0.1.0"
