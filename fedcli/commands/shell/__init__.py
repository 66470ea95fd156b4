"""The command line itself, which every command shares: flags, help, defaults, completion, and what
is printed.
"""
