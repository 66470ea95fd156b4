"""The stages, each a frozen dataclass of options and a function: what the command line, recipes and
Python call.

options.py declares the options of all stages and imports nothing heavy; prepare.py, partition.py,
corrupt.py, train.py, evaluate.py and report.py run them; results.py is what they give back.
"""
