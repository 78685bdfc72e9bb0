// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.CopyObjectResult;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.MetadataDirective;

/** Copies, as committers of Spark and of Hive rename with them. */
class CopyTest extends S3Test {
    private static final String FROM = "_temporary/0/ü +%20&=";

    @Test
    void rename() {
        byte[] want = data(300_000);
        String etag = put(FROM, want).eTag();
        CopyObjectResult done = S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(FROM)
                .destinationBucket(bucket).destinationKey("final/1")).copyObjectResult();
        assertEquals(etag, done.eTag());
        S3.deleteObject(r -> r.bucket(bucket).key(FROM));
        assertArrayEquals(want, bytes("final/1"));
        HeadObjectResponse head = S3.headObject(r -> r.bucket(bucket).key("final/1"));
        assertEquals(done.lastModified().getEpochSecond(), head.lastModified().getEpochSecond(), 1);
    }

    @Test
    void emptyObject() {
        put(FROM, "");
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(FROM)
                .destinationBucket(bucket).destinationKey("empty"));
        assertEquals("", text("empty"));
    }

    @Test
    void headersAreKeptOrReplaced() {
        S3.putObject(
                r -> r.bucket(bucket).key(FROM).contentType("text/csv").cacheControl("no-cache"),
                RequestBody.fromString("a,b"));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(FROM)
                .destinationBucket(bucket).destinationKey("kept"));
        HeadObjectResponse kept = S3.headObject(r -> r.bucket(bucket).key("kept"));
        assertEquals("text/csv", kept.contentType());
        assertEquals("no-cache", kept.cacheControl());
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(FROM)
                .destinationBucket(bucket).destinationKey("replaced")
                .metadataDirective(MetadataDirective.REPLACE).contentType("text/plain"));
        HeadObjectResponse replaced = S3.headObject(r -> r.bucket(bucket).key("replaced"));
        assertEquals("text/plain", replaced.contentType());
        assertEquals(null, replaced.cacheControl());
    }

    @Test
    void refused() {
        put(FROM, "x");
        assertRefused("400 InvalidRequest", () -> S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey(FROM).destinationBucket(bucket).destinationKey(FROM)));
        assertRefused("404 NoSuchKey", () -> S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey("none").destinationBucket(bucket).destinationKey("copy")));
        assertRefused("404 NoSuchBucket", () -> S3.copyObject(r -> r.sourceBucket(bucket + "-none")
                .sourceKey("none").destinationBucket(bucket).destinationKey("copy")));
    }

    @Test
    void inParts() {
        byte[] want = data(17 * MIB);
        put(FROM, want);
        try (S3AsyncClient s3 = Clients.async()
                .multipartEnabled(true)
                .multipartConfiguration(
                        c -> c.thresholdInBytes(6L * MIB).minimumPartSizeInBytes(6L * MIB))
                .build()) {
            String etag = s3.copyObject(r -> r.sourceBucket(bucket).sourceKey(FROM)
                    .destinationBucket(bucket).destinationKey("parts")).join()
                    .copyObjectResult().eTag();
            assertEquals("-3\"", etag.substring(etag.length() - 3));
        }
        assertArrayEquals(want, bytes("parts"));
    }
}
