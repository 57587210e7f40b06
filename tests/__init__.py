"""Tests of the Python package and of the whole."""
