// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.NoSuchBucketException;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** Errors as the exceptions that applications catch. */
class ErrorsTest extends S3Test {
    @Test
    void noSuchKey() {
        NoSuchKeyException thrown =
                assertThrows(NoSuchKeyException.class, () -> bytes("none"));
        assertEquals(404, thrown.statusCode());
        assertFalse(thrown.requestId().isEmpty());
        assertNotNull(thrown.extendedRequestId());
        assertEquals("The specified key does not exist.", thrown.awsErrorDetails().errorMessage());
        assertThrows(NoSuchKeyException.class,
                () -> S3.headObject(r -> r.bucket(bucket).key("none")));
        Throwable async = assertThrows(CompletionException.class, () -> ASYNC.getObject(
                r -> r.bucket(bucket).key("none"), AsyncResponseTransformer.toBytes()).join());
        assertInstanceOf(NoSuchKeyException.class, async.getCause());
    }

    @Test
    void noSuchBucket() {
        String none = bucket + "-none";
        assertThrows(NoSuchBucketException.class, () -> S3.listObjectsV2(r -> r.bucket(none)));
        assertThrows(NoSuchBucketException.class, () -> S3.listObjects(r -> r.bucket(none)));
        assertThrows(NoSuchBucketException.class, () -> S3.deleteBucket(r -> r.bucket(none)));
        assertThrows(NoSuchBucketException.class, () -> S3.putObject(
                r -> r.bucket(none).key("k"), RequestBody.fromString("x")));
        assertThrows(NoSuchBucketException.class,
                () -> S3.getObjectAsBytes(r -> r.bucket(none).key("k")));
        assertThrows(NoSuchBucketException.class,
                () -> S3.createMultipartUpload(r -> r.bucket(none).key("k")));
    }

    private static S3Client as(String user, String key) {
        return Clients.sync().credentialsProvider(
                StaticCredentialsProvider.create(AwsBasicCredentials.create(user, key))).build();
    }

    @Test
    void credentials() {
        try (S3Client s3 = as(System.getenv("S3_ACCESS_KEY"), "wrong")) {
            assertRefused("403 SignatureDoesNotMatch", () -> s3.listBuckets());
            assertRefused("403 SignatureDoesNotMatch", () -> s3.putObject(
                    r -> r.bucket(bucket).key("k"), RequestBody.fromString("x")));
        }
        try (S3Client s3 = as("test:nobody", "x")) {
            assertRefused("403 InvalidAccessKeyId", () -> s3.listBuckets());
        }
    }

    @Test
    void arguments() {
        assertRefused("400 InvalidArgument",
                () -> S3.listObjectsV2(r -> r.bucket(bucket).continuationToken("nonsense")));
        assertRefused("400 InvalidArgument", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key("k").versionId("nonsense")));
        assertRefused("400 InvalidStorageClass", () -> S3.putObject(
                r -> r.bucket(bucket).key("k").storageClass("NONSENSE"),
                RequestBody.fromString("x")));
        assertRefused("404 NoSuchUpload", () -> S3.listParts(
                r -> r.bucket(bucket).key("k").uploadId("nonsense")));
        assertRefused("400 KeyTooLongError", () -> put("k".repeat(1025), "x"));
    }

    @Test
    void ofTheOwner() {
        S3Exception refused = assertRefused("403 AccessDenied", () -> S3.listObjectsV2(
                r -> r.bucket(bucket).expectedBucketOwner("000000000000")));
        assertNotNull(refused.requestId());
    }
}
