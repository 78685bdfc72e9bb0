# SPDX-License-Identifier: Apache-2.0
"""The actions that policies name: each is about a bucket or about an object."""

from __future__ import annotations

import functools

from proxy.s3.wire.patterns import wildcard

_BUCKET_ACTIONS = """
    CreateBucket DeleteBucket ListBucket ListBucketVersions ListBucketMultipartUploads
    GetBucketLocation GetBucketAcl PutBucketAcl GetBucketPolicy PutBucketPolicy DeleteBucketPolicy
    GetBucketPolicyStatus GetBucketPublicAccessBlock PutBucketPublicAccessBlock
    GetBucketOwnershipControls PutBucketOwnershipControls GetBucketVersioning PutBucketVersioning
    GetBucketTagging PutBucketTagging GetBucketCORS PutBucketCORS GetLifecycleConfiguration
    PutLifecycleConfiguration GetEncryptionConfiguration PutEncryptionConfiguration
    GetBucketObjectLockConfiguration PutBucketObjectLockConfiguration GetBucketRequestPayment
    PutBucketRequestPayment GetBucketLogging PutBucketLogging GetBucketNotification
    PutBucketNotification GetBucketWebsite PutBucketWebsite DeleteBucketWebsite
    GetReplicationConfiguration PutReplicationConfiguration GetAccelerateConfiguration
    PutAccelerateConfiguration GetAnalyticsConfiguration PutAnalyticsConfiguration
    GetIntelligentTieringConfiguration PutIntelligentTieringConfiguration
    GetInventoryConfiguration PutInventoryConfiguration GetMetricsConfiguration
    PutMetricsConfiguration
"""
_OBJECT_ACTIONS = """
    GetObject GetObjectVersion PutObject DeleteObject DeleteObjectVersion GetObjectAcl
    GetObjectVersionAcl PutObjectAcl PutObjectVersionAcl GetObjectTagging GetObjectVersionTagging
    PutObjectTagging PutObjectVersionTagging DeleteObjectTagging DeleteObjectVersionTagging
    GetObjectAttributes GetObjectVersionAttributes GetObjectRetention PutObjectRetention
    GetObjectLegalHold PutObjectLegalHold BypassGovernanceRetention AbortMultipartUpload
    ListMultipartUploadParts RestoreObject GetObjectTorrent GetObjectVersionTorrent
    GetObjectVersionForReplication ReplicateObject ReplicateDelete ReplicateTags
    ObjectOwnerOverrideToBucketOwner
"""
PREFIX = "s3:"
#: Action in lower case -> whether it is about an object.
ACTIONS = {
    **{f"{PREFIX}{name}".lower(): False for name in _BUCKET_ACTIONS.split()},
    **{f"{PREFIX}{name}".lower(): True for name in _OBJECT_ACTIONS.split()},
}


@functools.lru_cache(maxsize=1024)
def expand(text: str) -> frozenset[str]:
    """The actions, in lower case, that the text of an action names; none for another text."""
    if text.lower() in ACTIONS:
        return frozenset([text.lower()])
    pattern = wildcard(text, False, ignores_case=True)
    return frozenset(action for action in ACTIONS if pattern.matches(action, {}))
