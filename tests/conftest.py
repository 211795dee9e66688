from hypothesis import HealthCheck, settings

# How fast a machine is, a sanitized interpreter above all, is no finding.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
