# SPDX-License-Identifier: Apache-2.0
"""Traces of requests for a collector of OpenTelemetry, as an option (doc/tracing.md).

Only `martlet.tracing.otel` imports the library, and only the filters import that module.
"""
