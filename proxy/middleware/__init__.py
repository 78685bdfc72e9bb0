# SPDX-License-Identifier: Apache-2.0
"""The filters of the proxy's pipeline, one a file; each is a plain WSGI callable."""
