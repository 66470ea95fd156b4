"""Check that a scores.json has the shape that docs/ publishes as JSON Schema."""

import json
from functools import cache
from pathlib import Path

import generate
import pytest


@cache
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(generate.schema("scores"))


def errors(path):
    """Where a scores.json differs from the schema, and how."""
    scores = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        f"{error.json_path}: {error.message}"[:200] for error in validator().iter_errors(scores)
    ]
