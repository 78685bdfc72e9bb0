# SPDX-License-Identifier: Apache-2.0
"""The headers in which encrypted things are stored: OpenStack Swift's, on disk, never change."""

BODY_META = "X-Object-Sysmeta-Crypto-Body-Meta"
ETAG = "X-Object-Sysmeta-Crypto-Etag"
#: HMAC-SHA256 of the ETag with the object's key: equal ETags are seen to be equal without telling.
ETAG_MAC = "X-Object-Sysmeta-Crypto-Etag-Mac"
#: Which keys the user metadata was encrypted with.
USER_META = "X-Object-Transient-Sysmeta-Crypto-Meta"
#: Before the name of each item of user metadata, in place of X-Object-Meta-.
USER_META_PREFIX = "X-Object-Transient-Sysmeta-Crypto-Meta-"
#: The ETag for the listing of the container, encrypted with the container's key.
LISTED_ETAG = "X-Object-Sysmeta-Container-Update-Override-Etag"

#: What no filter on the left needs to see; lower case.
PRIVATE_PREFIXES = ("x-object-sysmeta-crypto-", "x-object-transient-sysmeta-crypto-")
