// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.CompleteMultipartUploadResponse;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.ListPartsResponse;
import software.amazon.awssdk.services.s3.model.MultipartUpload;
import software.amazon.awssdk.services.s3.model.NoSuchUploadException;
import software.amazon.awssdk.services.s3.model.Part;

/** Uploads in parts, as S3A of Hadoop and Kafka Connect make them. */
class MultipartTest extends S3Test {
    private static final String KEY = "ü/parts";
    private static final byte[] BODY = data(10 * MIB + 100);

    private String begin() {
        return S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .contentType("text/csv").metadata(Map.of("a", "1"))).uploadId();
    }

    private CompletedPart upload(String id, int number, byte[] body) {
        String etag = S3.uploadPart(
                r -> r.bucket(bucket).key(KEY).uploadId(id).partNumber(number),
                RequestBody.fromBytes(body)).eTag();
        return CompletedPart.builder().partNumber(number).eTag(etag).build();
    }

    private CompleteMultipartUploadResponse complete(String id, List<CompletedPart> parts) {
        return S3.completeMultipartUpload(r -> r.bucket(bucket).key(KEY).uploadId(id)
                .multipartUpload(m -> m.parts(parts)));
    }

    private static byte[] part(int number) {
        int from = (number - 1) * 5 * MIB;
        return Arrays.copyOfRange(BODY, from, Math.min(from + 5 * MIB, BODY.length));
    }

    @Test
    void partsOutOfOrder() {
        String id = begin();
        CompletedPart third = upload(id, 3, part(3));
        CompletedPart first = upload(id, 1, part(1));
        upload(id, 2, data(10));
        CompletedPart second = upload(id, 2, part(2)); // the last one with this number counts
        CompleteMultipartUploadResponse done = complete(id, List.of(first, second, third));
        assertEquals(etagOfParts(), done.eTag());
        assertEquals(bucket, done.bucket());
        assertEquals(KEY, done.key());
        ResponseBytes<GetObjectResponse> got =
                S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY));
        assertArrayEquals(BODY, got.asByteArray());
        assertEquals(etagOfParts(), got.response().eTag());
        assertEquals("text/csv", got.response().contentType());
        assertEquals("1", got.response().metadata().get("a"));
        assertTrue(S3.listMultipartUploads(r -> r.bucket(bucket)).uploads().isEmpty());
    }

    private static String etagOfParts() {
        byte[] digests = new byte[48];
        for (int number = 1; number <= 3; number++) {
            byte[] digest = Checksums.digest("MD5", part(number));
            System.arraycopy(digest, 0, digests, 16 * number - 16, 16);
        }
        String plain = Checksums.etag(digests);
        return plain.substring(0, plain.length() - 1) + "-3\"";
    }

    @Test
    void readByPartNumber() {
        String id = begin();
        complete(id, List.of(upload(id, 2, part(1)), upload(id, 7, part(3))));
        ResponseBytes<GetObjectResponse> got =
                S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).partNumber(2));
        assertArrayEquals(part(3), got.asByteArray());
        assertEquals(2, got.response().partsCount());
        assertRefused("416 InvalidPartNumber",
                () -> S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).partNumber(3)));
    }

    @Test
    void listedParts() {
        String id = begin();
        IntStream.rangeClosed(1, 5).forEach(number -> upload(id, number, data(number)));
        List<Part> parts = S3.listPartsPaginator(
                r -> r.bucket(bucket).key(KEY).uploadId(id).maxParts(2)).parts().stream().toList();
        assertEquals(List.of(1, 2, 3, 4, 5), parts.stream().map(Part::partNumber).toList());
        assertEquals(List.of(1L, 2L, 3L, 4L, 5L), parts.stream().map(Part::size).toList());
        assertEquals(Checksums.etag(data(3)), parts.get(2).eTag());
        ListPartsResponse page =
                S3.listParts(r -> r.bucket(bucket).key(KEY).uploadId(id).maxParts(2));
        assertTrue(page.isTruncated());
        assertEquals(2, page.nextPartNumberMarker());
    }

    @Test
    void listedUploads() {
        List<String> keys = List.of("a/1", "a/2", "b/1", "c", "c");
        keys.forEach(key -> S3.createMultipartUpload(r -> r.bucket(bucket).key(key)));
        assertEquals(keys, S3.listMultipartUploadsPaginator(r -> r.bucket(bucket).maxUploads(1))
                .uploads().stream().map(MultipartUpload::key).toList());
        assertEquals(List.of("a/1", "a/2"), S3.listMultipartUploads(
                r -> r.bucket(bucket).prefix("a/")).uploads().stream()
                .map(MultipartUpload::key).toList());
        assertEquals(List.of("a/", "b/"), S3.listMultipartUploads(
                r -> r.bucket(bucket).delimiter("/")).commonPrefixes().stream()
                .map(prefix -> prefix.prefix()).toList());
    }

    @Test
    void abort() {
        String id = begin();
        upload(id, 1, data(10));
        S3.abortMultipartUpload(r -> r.bucket(bucket).key(KEY).uploadId(id));
        assertThrows(NoSuchUploadException.class,
                () -> S3.listParts(r -> r.bucket(bucket).key(KEY).uploadId(id)));
        assertThrows(NoSuchUploadException.class, () -> upload(id, 2, data(10)));
        assertThrows(NoSuchUploadException.class,
                () -> S3.abortMultipartUpload(r -> r.bucket(bucket).key(KEY).uploadId(id)));
        assertRefused("404 NoSuchKey", () -> bytes(KEY));
    }

    @Test
    void refusedCompletions() {
        String id = begin();
        CompletedPart first = upload(id, 1, data(10));
        CompletedPart second = upload(id, 2, data(20));
        assertRefused("400 EntityTooSmall", () -> complete(id, List.of(first, second)));
        assertRefused("400 InvalidPartOrder", () -> complete(id, List.of(second, first)));
        CompletedPart other = second.toBuilder().eTag(Checksums.etag(data(3))).build();
        assertRefused("400 InvalidPart", () -> complete(id, List.of(other)));
        assertRefused("400 InvalidPart",
                () -> complete(id, List.of(second.toBuilder().partNumber(3).build())));
        assertRefused("404 NoSuchKey", () -> bytes(KEY));
        complete(id, List.of(first)); // the upload is as before
        assertArrayEquals(data(10), bytes(KEY));
    }

    @Test
    void conditionsOfCompletions() {
        put(KEY, "old");
        String id = begin();
        CompletedPart part = upload(id, 1, data(10));
        assertRefused("412 PreconditionFailed", () -> S3.completeMultipartUpload(
                r -> r.bucket(bucket).key(KEY).uploadId(id).ifNoneMatch("*")
                        .multipartUpload(m -> m.parts(part))));
        assertEquals("old", text(KEY));
        complete(id, List.of(part));
        assertArrayEquals(data(10), bytes(KEY));
        complete(id, List.of(part)); // it may be repeated
    }

    @Test
    void copiedParts() {
        put("source", BODY);
        String id = begin();
        CompletedPart first = copy(id, 1, 0, 5 * MIB);
        complete(id, List.of(first, copy(id, 2, 5 * MIB, BODY.length)));
        assertArrayEquals(BODY, bytes(KEY));
    }

    private CompletedPart copy(String id, int number, int from, int to) {
        String etag = S3.uploadPartCopy(r -> r.sourceBucket(bucket).sourceKey("source")
                .destinationBucket(bucket).destinationKey(KEY).uploadId(id).partNumber(number)
                .copySourceRange("bytes=" + from + "-" + (to - 1))).copyPartResult().eTag();
        return CompletedPart.builder().partNumber(number).eTag(etag).build();
    }
}
