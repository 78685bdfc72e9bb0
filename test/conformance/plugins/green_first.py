"""A plugin of pytest: eventlet takes over before anything else is imported.

Swift's suites import boto3 and eventlet in either order. With eventlet second, urllib3 keeps a
class of the module ssl that eventlet has replaced, and each connection ends in a RecursionError.
"""

from __future__ import annotations

import eventlet

eventlet.monkey_patch()
