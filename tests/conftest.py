import gc

from hypothesis import HealthCheck, settings

# How fast a machine is, a sanitized interpreter above all, is no finding.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish():
    """Let searches for garbage, of which there are many, pass by the modules of all packages."""
    gc.collect()
    gc.freeze()
