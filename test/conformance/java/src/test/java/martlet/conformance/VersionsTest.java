// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.s3.model.BucketVersioningStatus;
import software.amazon.awssdk.services.s3.model.DeleteMarkerEntry;
import software.amazon.awssdk.services.s3.model.DeleteObjectResponse;
import software.amazon.awssdk.services.s3.model.DeletedObject;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.ObjectVersion;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** Versions of objects, and the markers of deletion. */
class VersionsTest extends S3Test {
    private static final String KEY = "ü k";

    @BeforeEach
    void enable() {
        setStatus(BucketVersioningStatus.ENABLED);
    }

    private void setStatus(BucketVersioningStatus status) {
        S3.putBucketVersioning(
                r -> r.bucket(bucket).versioningConfiguration(v -> v.status(status)));
        assertEquals(status, S3.getBucketVersioning(r -> r.bucket(bucket)).status());
    }

    private String text(String key, String version) {
        return S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(key).versionId(version)).asUtf8String();
    }

    @Test
    void eachIsKept() {
        String first = put(KEY, "1").versionId();
        String second = put(KEY, "22").versionId();
        assertEquals("22", text(KEY));
        assertEquals("1", text(KEY, first));
        assertEquals("22", text(KEY, second));
        assertEquals(1, S3.headObject(
                r -> r.bucket(bucket).key(KEY).versionId(first)).contentLength());
        assertEquals(second, S3.headObject(r -> r.bucket(bucket).key(KEY)).versionId());
    }

    @Test
    void deleteMarkers() {
        String first = put(KEY, "1").versionId();
        DeleteObjectResponse gone = S3.deleteObject(r -> r.bucket(bucket).key(KEY));
        assertTrue(gone.deleteMarker());
        assertRefused("404 NoSuchKey", () -> text(KEY));
        assertEquals("1", text(KEY, first));
        assertRefused("405 MethodNotAllowed", () -> text(KEY, gone.versionId()));
        S3Exception hidden = assertThrows(S3Exception.class, () -> text(KEY));
        assertEquals("true", hidden.awsErrorDetails().sdkHttpResponse()
                .firstMatchingHeader("x-amz-delete-marker").orElse(""));
        DeleteObjectResponse undone =
                S3.deleteObject(r -> r.bucket(bucket).key(KEY).versionId(gone.versionId()));
        assertTrue(undone.deleteMarker());
        assertEquals(gone.versionId(), undone.versionId());
        assertEquals("1", text(KEY));
    }

    @Test
    void removedForGood() {
        String first = put(KEY, "1").versionId();
        String second = put(KEY, "2").versionId();
        assertEquals(second, S3.deleteObject(
                r -> r.bucket(bucket).key(KEY).versionId(second)).versionId());
        assertEquals("1", text(KEY));
        assertRefused("404 NoSuchVersion", () -> text(KEY, second));
        List<DeletedObject> done = S3.deleteObjects(r -> r.bucket(bucket).delete(
                d -> d.objects(ObjectIdentifier.builder().key(KEY).versionId(first).build())))
                .deleted();
        assertEquals(first, done.get(0).versionId());
        assertTrue(S3.listObjectVersions(r -> r.bucket(bucket)).versions().isEmpty());
    }

    @Test
    void deleteObjectsMakesMarkers() {
        put(KEY, "1");
        DeletedObject done = S3.deleteObjects(r -> r.bucket(bucket).delete(
                d -> d.objects(ObjectIdentifier.builder().key(KEY).build()))).deleted().get(0);
        assertTrue(done.deleteMarker());
        assertNotNull(done.deleteMarkerVersionId());
        assertNull(done.versionId());
    }

    @Test
    void listed() {
        String first = put("a", "1").versionId();
        String second = put("a", "22").versionId();
        String other = put("b/1", "3").versionId();
        String marker = S3.deleteObject(r -> r.bucket(bucket).key("a")).versionId();
        for (int size : new int[] {1, 2, 1000}) {
            var pages = S3.listObjectVersionsPaginator(r -> r.bucket(bucket).maxKeys(size));
            List<ObjectVersion> versions = pages.versions().stream().toList();
            assertEquals(List.of(second, first, other),
                    versions.stream().map(ObjectVersion::versionId).toList());
            assertEquals(List.of(false, false, true),
                    versions.stream().map(ObjectVersion::isLatest).toList());
            assertEquals(List.of(2L, 1L, 1L), versions.stream().map(ObjectVersion::size).toList());
            List<DeleteMarkerEntry> markers = pages.deleteMarkers().stream().toList();
            assertEquals(List.of(marker),
                    markers.stream().map(DeleteMarkerEntry::versionId).toList());
            assertTrue(markers.get(0).isLatest());
        }
        assertEquals("b/", S3.listObjectVersions(r -> r.bucket(bucket).delimiter("/"))
                .commonPrefixes().get(0).prefix());
    }

    @Test
    void copiesOfVersions() {
        String first = put(KEY, "1").versionId();
        put(KEY, "2");
        var done = S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY).sourceVersionId(first)
                .destinationBucket(bucket).destinationKey(KEY));
        assertEquals(first, done.copySourceVersionId());
        assertFalse(first.equals(done.versionId()));
        assertEquals("1", text(KEY));
    }

    @Test
    void suspended() {
        String kept = put(KEY, "kept").versionId();
        setStatus(BucketVersioningStatus.SUSPENDED);
        put(KEY, "a");
        put(KEY, "b");
        assertEquals("b", text(KEY));
        assertEquals("b", text(KEY, "null"));
        assertEquals("kept", text(KEY, kept));
        assertEquals(2, S3.listObjectVersions(r -> r.bucket(bucket)).versions().size());
    }
}
