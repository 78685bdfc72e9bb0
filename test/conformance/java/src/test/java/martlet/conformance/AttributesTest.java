// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.GetObjectAttributesResponse;
import software.amazon.awssdk.services.s3.model.ObjectAttributes;
import software.amazon.awssdk.services.s3.model.ObjectPart;
import software.amazon.awssdk.services.s3.model.UploadPartResponse;

/** GetObjectAttributes: what HEAD shows, and the parts. */
class AttributesTest extends S3Test {
    private GetObjectAttributesResponse attributes(ObjectAttributes... wanted) {
        return S3.getObjectAttributes(
                r -> r.bucket(bucket).key("k").objectAttributes(wanted));
    }

    @Test
    void ofAnObject() {
        byte[] body = data(1000);
        String etag = put("k", body).eTag();
        GetObjectAttributesResponse got = attributes(
                ObjectAttributes.E_TAG, ObjectAttributes.CHECKSUM, ObjectAttributes.OBJECT_SIZE,
                ObjectAttributes.STORAGE_CLASS, ObjectAttributes.OBJECT_PARTS);
        assertEquals(etag.replace("\"", ""), got.eTag());
        assertEquals(Checksums.crc32(body), got.checksum().checksumCRC32());
        assertEquals(1000, got.objectSize());
        assertEquals("STANDARD", got.storageClassAsString());
        assertNull(got.objectParts());
        assertEquals(
                S3.headObject(r -> r.bucket(bucket).key("k")).lastModified(), got.lastModified());
        GetObjectAttributesResponse some = attributes(ObjectAttributes.OBJECT_SIZE);
        assertNull(some.eTag());
        assertNull(some.checksum());
        assertRefused("404 NoSuchKey", () -> S3.getObjectAttributes(
                r -> r.bucket(bucket).key("none").objectAttributes(ObjectAttributes.E_TAG)));
    }

    @Test
    void ofParts() {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key("k")
                .checksumAlgorithm(ChecksumAlgorithm.SHA256)).uploadId();
        List<Integer> sizes = List.of(5 * MIB, 100);
        List<CompletedPart> parts = Stream.of(1, 2).map(number -> {
            UploadPartResponse done = S3.uploadPart(
                    r -> r.bucket(bucket).key("k").uploadId(id).partNumber(number)
                            .checksumAlgorithm(ChecksumAlgorithm.SHA256),
                    RequestBody.fromBytes(data(sizes.get(number - 1))));
            return CompletedPart.builder().partNumber(number).eTag(done.eTag())
                    .checksumSHA256(done.checksumSHA256()).build();
        }).toList();
        S3.completeMultipartUpload(r -> r.bucket(bucket).key("k").uploadId(id)
                .multipartUpload(m -> m.parts(parts)));
        GetObjectAttributesResponse got =
                attributes(ObjectAttributes.OBJECT_PARTS, ObjectAttributes.OBJECT_SIZE);
        assertEquals(5 * MIB + 100, got.objectSize());
        assertEquals(2, got.objectParts().totalPartsCount());
        List<ObjectPart> found = got.objectParts().parts();
        assertEquals(List.of(1, 2), found.stream().map(ObjectPart::partNumber).toList());
        assertEquals(List.of(5L * MIB, 100L), found.stream().map(ObjectPart::size).toList());
        assertEquals(Checksums.sha256(data(100)), found.get(1).checksumSHA256());
    }
}
