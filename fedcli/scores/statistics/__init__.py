"""Scores under other draws of patients, and tests of differences between scores."""
