# SPDX-License-Identifier: Apache-2.0
"""HTTP requests and responses over plain WSGI (PEP 3333), and a client of our storage servers.

A request is a view of ``environ``; a response is a status, headers and a body. Header values stay
WSGI strings (one character a byte) until their text is needed.
"""
