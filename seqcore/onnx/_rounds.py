"""Rounds."""


def plan_rounds(entry, planner, runs_out):
    return None
