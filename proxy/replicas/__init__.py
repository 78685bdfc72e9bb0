# SPDX-License-Identifier: Apache-2.0
"""Requests to the replicas of an account, a container or an object.

A controller calls ``core``, the object of the process that has options, rings and connections. For
each request, ``nodes`` gives the devices of its partition in order. ``health`` knows which of them
are suppressed.

A write goes down through three layers:

- ``engine`` takes devices from that order, one for each request, until the statuses decide the
  outcome. It replaces failed devices and gives up late ones.
- A transport sends the requests: ``fanout`` over one connection each, ``batch_fanout`` in messages
  with other requests (``batch``), ``uploads`` with a body in pieces. Another transport needs only
  the methods of `engine.Transport`.
- ``backends`` sends a request to one device, logs failures and notes them in ``health``. ``prober``
  finds out when a suppressed device works again.

The outcomes go back up, and ``quorum`` makes one answer of them. ``updates`` decides which object
server updates which container replica, and updates the replicas that were missed.

A read does not use the engine, since it asks one device after the other and stops at the first that
has the object: ``fetch`` takes devices from the same order and calls ``backends``.
"""
