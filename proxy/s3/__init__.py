# SPDX-License-Identifier: Apache-2.0
"""The S3 API on accounts, containers and objects; see doc/s3.md."""
