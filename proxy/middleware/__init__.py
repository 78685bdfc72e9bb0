# SPDX-License-Identifier: Apache-2.0
"""The filters of the proxy's pipeline; each filter is a plain WSGI callable."""
