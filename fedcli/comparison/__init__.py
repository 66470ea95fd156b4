"""Is one system better than another: what runs predicted, which are paired, their difference, and
what it shows.
"""
