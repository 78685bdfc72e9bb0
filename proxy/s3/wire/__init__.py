# SPDX-License-Identifier: Apache-2.0
"""S3 on the wire: names, signatures, bodies, XML and errors. No module here makes requests."""
