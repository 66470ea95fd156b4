"""Scores under other draws of patients, and whether differences between scores are more than chance."""
