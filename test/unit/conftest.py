# SPDX-License-Identifier: Apache-2.0
"""Settings of all unit tests."""

from hypothesis import settings

# An example that takes longer than 200 ms is no failure: a busy machine is late now and then.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
