# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with rings. The message of each is one sentence fit for an operator."""


class RingError(Exception):
    """Base of every error of this package."""


class RingFileError(RingError):
    """A ring file is missing, unreadable or damaged."""


class BuilderFileError(RingError):
    """A builder file is missing, unreadable, damaged, or holds something else than plain data."""


class BuilderError(RingError):
    """An operation that the builder refuses; the builder's state is as it was before."""


class DeviceError(RingError):
    """A device, an address, a weight or a search value is written wrongly."""


class HashConfError(RingError):
    """The [swift-hash] section is missing or says nothing."""
