# SPDX-License-Identifier: Apache-2.0
"""The errors of rings. The message of each is one sentence for an operator."""


class RingError(Exception):
    """The base of all errors of this package."""


class RingFileError(RingError):
    """A ring file is missing, unreadable or damaged."""


class BuilderFileError(RingError):
    """A builder file is missing, unreadable, damaged, or has more than plain data."""


class BuilderError(RingError):
    """An operation that the builder refuses; the builder's state is unchanged."""


class DeviceError(RingError):
    """A device, an address, a weight or a search value is malformed."""


class HashConfError(RingError):
    """The [swift-hash] section is missing or empty."""
