# SPDX-License-Identifier: Apache-2.0
"""Objects made of segments: static (SLO) and dynamic (DLO) large objects."""
