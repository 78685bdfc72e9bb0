# SPDX-License-Identifier: Apache-2.0
"""Headers that store encrypted data; they are OpenStack Swift's, on disk, and never change."""

BODY_META = "X-Object-Sysmeta-Crypto-Body-Meta"
ETAG = "X-Object-Sysmeta-Crypto-Etag"
#: HMAC-SHA256 of the ETag with the object's key, to compare ETags without revealing them.
ETAG_MAC = "X-Object-Sysmeta-Crypto-Etag-Mac"
#: The key id of the user metadata.
USER_META = "X-Object-Transient-Sysmeta-Crypto-Meta"
#: The prefix of each item of user metadata, in place of X-Object-Meta-.
USER_META_PREFIX = "X-Object-Transient-Sysmeta-Crypto-Meta-"
#: The ETag for the listing of the container, encrypted with the container's key.
LISTED_ETAG = "X-Object-Sysmeta-Container-Update-Override-Etag"

#: Prefixes of headers that filters to the left do not need; lower case.
PRIVATE_PREFIXES = ("x-object-sysmeta-crypto-", "x-object-transient-sysmeta-crypto-")
