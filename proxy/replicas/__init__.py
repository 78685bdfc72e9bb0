# SPDX-License-Identifier: Apache-2.0
"""Requests to the replicas of an account, a container or an object.

A controller asks ``core``, the object of the process that has options, rings and connections. For
each request ``nodes`` orders the devices of its partition; ``health`` says which to leave alone.

A write goes down through three floors:

- ``engine`` takes devices from that order, one for each request, until the statuses decide the
  outcome. It replaces failed devices and gives up late ones.
- A transport carries the requests: ``fanout`` over a connection each, ``batch_fanout`` in messages
  with those of others (``batch``), ``uploads`` with a body in pieces. Another transport needs only
  the methods of `engine.Transport`.
- ``backends`` speaks to one device, logs failures and notes them in ``health``. ``prober`` looks
  when a suppressed device is back.

The outcomes go back up; ``quorum`` makes one answer of them. ``updates`` says which object server
tells which container replica, and tells those that were missed.

A read does not use the engine, since it asks one device after the other and stops at the first that
has the thing: ``fetch`` takes devices from the same order and asks ``backends``.
"""
