# SPDX-License-Identifier: Apache-2.0
"""Requests to the replicas of an account, a container or an object.

``core`` belongs to the process: options, rings, connections. ``nodes`` orders the devices of a
partition, ``health`` suppresses those that fail, ``backends`` asks one, ``fanout`` and ``uploads``
ask several until a ``quorum`` has answered, ``fetch`` reads from the best. ``batch`` sends small
requests to one object server together.
"""
