"""Clients on other machines: a process for each hospital, and the engines that reach them, see engines.py."""
