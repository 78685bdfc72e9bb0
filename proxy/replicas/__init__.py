# SPDX-License-Identifier: Apache-2.0
"""Requests to the replicas of an account, a container or an object.

A controller calls ``core``, the object of the process that has options, rings and connections. For
each request, ``nodes`` gives the devices of its partition in order. ``health`` knows which of them
are suppressed.

A write goes down through three layers:

- ``engine`` takes devices from that order, one for each request, until the statuses decide the
  outcome. It replaces failed devices and gives up late ones.
- A transport sends the requests: ``grid_fanout`` over the grid, ``fanout`` by HTTP to servers that
  have none, ``uploads`` with a body in pieces by HTTP. Another transport needs only the methods of
  `engine.Transport`.
- ``backends`` sends a request to one device, logs failures and notes them in ``health``. ``prober``
  finds out when a suppressed device works again.

The outcomes go back up, and ``quorum`` makes one answer of them. ``updates`` decides which object
server updates which container replica, and updates the replicas that were missed.

A read does not use the engine, since it asks one device after the other and stops at the first that
has the object: ``fetch`` takes devices from the same order. It asks them over the grid, and by
``backends`` those that have none and those with a large body.

Of the grid, ``grid_messages`` has the payloads, ``grid_servers`` knows the servers without it, and
``grid_requests`` sends a request again whose connection was lost.
"""
