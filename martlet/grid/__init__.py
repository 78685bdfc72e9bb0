# SPDX-License-Identifier: Apache-2.0
"""The grid: many requests and streams over one authenticated connection to another server.

The wire is described in ``doc/formats/grid.md``. From the bytes up:

- `frames`: frames to bytes and back, strictly. No I/O.
- `secrets`, `options`, `handshake`: the secrets of a cluster, and the proof that the peer has one.
- `session`, `streams`: the state of a connection after the handshake, for both sides. No I/O.
- `websocket`: messages to the bytes of a WebSocket and back. No I/O.
- `loop`, `hub_loop`, `thread_loop`: turns, timers and waits, under eventlet or with threads.
- `connection`: a socket with its session.
- `client`: requests to other servers, over one connection for each address.
- `server`: handlers of requests, behind the port of a WSGI service.
"""
