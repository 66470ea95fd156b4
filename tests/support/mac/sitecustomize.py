"""Python reads this file as it begins, where its folder is in PYTHONPATH."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

import pretended_mac

pretended_mac.begin()
