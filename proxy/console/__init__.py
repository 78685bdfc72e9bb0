# SPDX-License-Identifier: Apache-2.0
"""The console: a web page for users and operators, served below ``/console/`` (doc/console.md)."""
