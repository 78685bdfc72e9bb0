# SPDX-License-Identifier: Apache-2.0
"""The errors of S3: code, status and sentence, and the document that tells them."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.s3.wire.xml_out import Document

#: Code -> status and message, those of Amazon S3 where clients compare them.
ERRORS: dict[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied"),
    "AccessForbidden": (403, "AccessForbidden"),
    "AccessControlListNotSupported": (400, "The bucket does not allow ACLs"),
    "AuthorizationHeaderMalformed": (400, "The Authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The parameters of the signed URL are wrong."),
    "BadDigest": (400, "The Content-MD5 you specified did not match what we received."),
    "BadRequest": (400, "The request is not valid."),
    "BucketAlreadyExists": (409, "Another account has a bucket of this name."),
    "BucketAlreadyOwnedByYou": (409, "The bucket exists, and it is yours."),
    "BucketNotEmpty": (409, "The bucket is not empty."),
    "ConditionalRequestConflict": (
        409,
        "Another request about the same object came at the same time. Try again.",
    ),
    "EntityTooLarge": (400, "The upload is larger than an object may be."),
    "EntityTooSmall": (400, "A part other than the last one is smaller than allowed."),
    "ExpiredToken": (400, "The token has expired."),
    "IllegalVersioningConfigurationException": (400, "The versioning configuration is invalid."),
    "IncompleteBody": (400, "The request body terminated unexpectedly"),
    "InternalError": (500, "An internal error occurred. Try again."),
    "InvalidAccessKeyId": (403, "There is no such access key."),
    "InvalidArgument": (400, "Invalid Argument"),
    "InvalidBucketAclWithObjectOwnership": (
        400,
        "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
    ),
    "InvalidBucketName": (400, "The name of the bucket is not valid."),
    "InvalidTargetBucketForLogging": (
        400,
        "The target bucket for logging does not exist, or is not owned by you.",
    ),
    "InvalidBucketState": (409, "The state of the bucket does not allow this."),
    "InvalidChunkSizeError": (
        403,
        "Only the last chunk is allowed to have a size less than 8192 bytes",
    ),
    "InvalidDigest": (400, "The Content-MD5 you specified was invalid."),
    "InvalidEncryptionAlgorithmError": (
        400,
        "The encryption request you specified is not valid. Supported value: AES256.",
    ),
    "InvalidLocationConstraint": (400, "The location constraint is not valid."),
    "InvalidPart": (
        400,
        "One or more of the specified parts could not be found.  The part may not have been "
        "uploaded, or the specified entity tag may not match the part's entity tag.",
    ),
    "InvalidPartOrder": (400, "The parts must be listed in the order of their numbers."),
    "InvalidPartNumber": (416, "The requested partnumber is not satisfiable"),
    "InvalidPolicyDocument": (400, "The policy of the form is not valid."),
    "InvalidRange": (416, "The requested range is not satisfiable."),
    "InvalidRedirectLocation": (400, "The website redirect location is not valid."),
    "InvalidRequest": (400, "The request is not valid."),
    "InvalidRetentionPeriod": (400, "The retention period is not valid."),
    "InvalidStorageClass": (400, "There is no such storage class."),
    "InvalidTag": (400, "A tag is not valid."),
    "InvalidToken": (400, "The security token is not valid: there are no temporary credentials."),
    "InvalidURI": (400, "The URI cannot be decoded."),
    "KeyTooLongError": (400, "The key is too long."),
    "MalformedACLError": (400, "The XML is not a valid access control policy."),
    "MalformedPOSTRequest": (
        400,
        "The body of your POST request is not well-formed multipart/form-data.",
    ),
    "MalformedPolicy": (400, "The policy is not valid."),
    "MalformedTrailerError": (
        400,
        "The request contained trailing data that was not well-formed or did not conform to our "
        "published schema.",
    ),
    "MalformedXML": (
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
    ),
    "MaxMessageLengthExceeded": (400, "The body is too large."),
    "MaxPostPreDataLengthExceeded": (
        400,
        "Your POST request fields preceding the upload file were too large.",
    ),
    "MetadataTooLarge": (400, "The metadata is larger than allowed."),
    "MethodNotAllowed": (405, "The method is not allowed for this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "MissingRequestBodyError": (400, "The body is empty."),
    "MissingSecurityHeader": (400, "A required header is missing."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchBucketPolicy": (404, "The bucket policy does not exist"),
    "NoSuchCORSConfiguration": (404, "The CORS configuration does not exist"),
    "NoSuchLifecycleConfiguration": (404, "The lifecycle configuration does not exist"),
    "NoSuchPublicAccessBlockConfiguration": (
        404,
        "The public access block configuration was not found",
    ),
    "NoSuchWebsiteConfiguration": (
        404,
        "The specified bucket does not have a website configuration",
    ),
    "OwnershipControlsNotFoundError": (404, "The bucket ownership controls were not found"),
    "ReplicationConfigurationNotFoundError": (404, "The replication configuration was not found"),
    "ServerSideEncryptionConfigurationNotFoundError": (
        404,
        "The server side encryption configuration was not found",
    ),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchObjectLockConfiguration": (
        404,
        "The specified object does not have a ObjectLock configuration",
    ),
    "NoSuchTagSet": (404, "There are no tags."),
    "NoSuchUpload": (404, "The upload does not exist. It may have been completed or aborted."),
    "NoSuchVersion": (404, "The version does not exist."),
    "NotImplemented": (501, "The requested resource is not implemented"),
    "ObjectLockConfigurationNotFoundError": (
        404,
        "Object Lock configuration does not exist for this bucket",
    ),
    "OperationAborted": (409, "Another operation on the same resource is under way. Try again."),
    "PreconditionFailed": (412, "A condition of the request does not hold."),
    "RequestTimeTooSkewed": (403, "The time of the request differs too much from the server's."),
    "RequestTimeout": (400, "The body was not sent in time."),
    "ServiceUnavailable": (503, "The request cannot be served now. Try again."),
    "SignatureDoesNotMatch": (
        403,
        "The request signature we calculated does not match the signature you provided. Check "
        "your key and signing method.",
    ),
    "SlowDown": (503, "Too many requests. Try again, more slowly."),
    "TooManyBuckets": (400, "The account may not have more buckets."),
    "UnexpectedContent": (400, "The request may not have a body."),
    "UserKeyMustBeSpecified": (400, "An object to delete has no key."),
    "XAmzContentSHA256Mismatch": (
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
}


class S3Error(Exception):
    """An error for the client.

    :param fields: further elements of the document, e.g. ``BucketName``.
    :param headers: of the answer.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        status, sentence = ERRORS[code]
        self.code = code
        self.status = status
        self.message = message or sentence
        self.fields = dict(fields or {})
        self.headers = dict(headers or {})
        super().__init__(f"{code}: {self.message}")


def invalid_argument(name: str, value: str, message: str = "") -> S3Error:
    """An InvalidArgument that names the argument."""
    fields = {"ArgumentName": name, "ArgumentValue": value}
    return S3Error("InvalidArgument", message, fields=fields)


def error_document(error: S3Error, resource: str, request_id: str, host_id: str) -> bytes:
    """The XML of an error; ``resource`` is the path as text."""
    document = Document("Error", namespace="")
    document.text("Code", error.code)
    document.text("Message", error.message)
    for name, value in error.fields.items():
        document.lines(name, value)
    document.text("Resource", resource)
    document.text("RequestId", request_id)
    document.text("HostId", host_id)
    return document.finish()
