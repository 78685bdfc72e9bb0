// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;

/** Conditions of reads, writes, copies and deletes. */
class ConditionsTest extends S3Test {
    private static final String KEY = "k";
    private static final String OTHER = "\"00000000000000000000000000000000\"";

    @Test
    void reads() {
        String etag = put(KEY, "1").eTag();
        S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifMatch(etag));
        S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifNoneMatch(OTHER));
        assertRefused("412 PreconditionFailed",
                () -> S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifMatch(OTHER)));
        // An answer without a body has no code.
        assertRefused("304 null",
                () -> S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifNoneMatch(etag)));
        assertRefused("304 null",
                () -> S3.headObject(r -> r.bucket(bucket).key(KEY).ifNoneMatch(etag)));
        assertRefused("412 null",
                () -> S3.headObject(r -> r.bucket(bucket).key(KEY).ifMatch(OTHER)));
    }

    @Test
    void readsByTime() {
        put(KEY, "1");
        Instant written = S3.headObject(r -> r.bucket(bucket).key(KEY)).lastModified();
        Instant before = written.minus(Duration.ofHours(1));
        S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifModifiedSince(before));
        S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifUnmodifiedSince(written));
        assertRefused("304 null",
                () -> S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).ifModifiedSince(written)));
        assertRefused("412 PreconditionFailed", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).ifUnmodifiedSince(before)));
    }

    @Test
    void writes() {
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).ifNoneMatch("*"), RequestBody.fromString("1"));
        assertRefused("412 PreconditionFailed", () -> S3.putObject(
                r -> r.bucket(bucket).key(KEY).ifNoneMatch("*"), RequestBody.fromString("2")));
        String etag = S3.headObject(r -> r.bucket(bucket).key(KEY)).eTag();
        assertRefused("412 PreconditionFailed", () -> S3.putObject(
                r -> r.bucket(bucket).key(KEY).ifMatch(OTHER), RequestBody.fromString("3")));
        assertEquals("1", text(KEY));
        S3.putObject(r -> r.bucket(bucket).key(KEY).ifMatch(etag), RequestBody.fromString("4"));
        assertEquals("4", text(KEY));
        assertRefused("404 NoSuchKey", () -> S3.putObject(
                r -> r.bucket(bucket).key("none").ifMatch(etag), RequestBody.fromString("5")));
    }

    @Test
    void copies() {
        String etag = put(KEY, "1").eTag();
        assertRefused("412 PreconditionFailed", () -> S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey(KEY).destinationBucket(bucket).destinationKey("copy")
                .copySourceIfMatch(OTHER)));
        assertRefused("412 PreconditionFailed", () -> S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey(KEY).destinationBucket(bucket).destinationKey("copy")
                .copySourceIfNoneMatch(etag)));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket).destinationKey("copy").copySourceIfMatch(etag));
        assertRefused("412 PreconditionFailed", () -> S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey(KEY).destinationBucket(bucket).destinationKey("copy")
                .ifNoneMatch("*")));
    }

    @Test
    void deletes() {
        String etag = put(KEY, "1").eTag();
        assertRefused("412 PreconditionFailed",
                () -> S3.deleteObject(r -> r.bucket(bucket).key(KEY).ifMatch(OTHER)));
        assertEquals("1", text(KEY));
        S3.deleteObject(r -> r.bucket(bucket).key(KEY).ifMatch(etag));
        assertRefused("404 NoSuchKey", () -> text(KEY));
    }
}
