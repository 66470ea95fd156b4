"""Clients on other machines: a process for each hospital, and engines.py, which reaches them."""
