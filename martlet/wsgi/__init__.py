# SPDX-License-Identifier: Apache-2.0
"""The HTTP/1.1 server below every Python service: from a listening socket to a WSGI application.

The path of a request: `listener` accepts a connection, `stream` reads the bytes of a head, and
`head` checks and parses it. Then `connection` calls the application, which reads the request's
`body`, and `answer` sends the result.

The package uses the standard library alone: under eventlet's monkey patch sockets and locks are
green. Request smuggling depends on lenient parsers. So a request that RFC 9112 does not allow is
answered with a 4xx before an application runs. Everything that a client can send is bounded.
"""
