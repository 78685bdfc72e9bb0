# SPDX-License-Identifier: Apache-2.0
"""The HTTP/1.1 server below every Python service: from a listening socket to a WSGI application.

The way of a request: `listener` accepts a connection, `stream` gathers the bytes of a head, `head`
checks and parses it, `connection` calls the application, which reads the request's `body`, and
`answer` sends what it returns.

The package is made of the standard library alone: under eventlet's monkey patch sockets and locks
are green. Request smuggling lives on lenient parsers, so whatever RFC 9112 does not allow is
answered with a 4xx before an application runs. All that a client can send is bounded.
"""
