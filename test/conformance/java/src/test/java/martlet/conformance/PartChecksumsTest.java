// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.ChecksumType;
import software.amazon.awssdk.services.s3.model.CompleteMultipartUploadResponse;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.UploadPartResponse;

/** Checksums of parts, and of objects that are made of them. */
class PartChecksumsTest extends S3Test {
    private static final String KEY = "k";
    private static final byte[] BODY = data(6 * MIB);

    private static byte[] part(int number) {
        return number == 1
                ? Arrays.copyOf(BODY, 5 * MIB) : Arrays.copyOfRange(BODY, 5 * MIB, BODY.length);
    }

    private UploadPartResponse upload(String id, int number, ChecksumAlgorithm algorithm) {
        return S3.uploadPart(
                r -> r.bucket(bucket).key(KEY).uploadId(id).partNumber(number)
                        .checksumAlgorithm(algorithm),
                RequestBody.fromBytes(part(number)));
    }

    private ResponseBytes<GetObjectResponse> get() {
        return S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).checksumMode(ChecksumMode.ENABLED));
    }

    @Test
    void composite() {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .checksumAlgorithm(ChecksumAlgorithm.SHA256)).uploadId();
        List<CompletedPart> parts = Stream.of(1, 2).map(number -> {
            UploadPartResponse done = upload(id, number, ChecksumAlgorithm.SHA256);
            assertEquals(Checksums.sha256(part(number)), done.checksumSHA256());
            return CompletedPart.builder().partNumber(number)
                    .eTag(done.eTag()).checksumSHA256(done.checksumSHA256()).build();
        }).toList();
        assertEquals(
                Checksums.sha256(part(2)),
                S3.listParts(r -> r.bucket(bucket).key(KEY).uploadId(id))
                        .parts().get(1).checksumSHA256());
        CompleteMultipartUploadResponse done = S3.completeMultipartUpload(
                r -> r.bucket(bucket).key(KEY).uploadId(id).multipartUpload(m -> m.parts(parts)));
        byte[] digests = Arrays.copyOf(Checksums.digest("SHA-256", part(1)), 64);
        System.arraycopy(Checksums.digest("SHA-256", part(2)), 0, digests, 32, 32);
        assertEquals(Checksums.sha256(digests) + "-2", done.checksumSHA256());
        ResponseBytes<GetObjectResponse> got = get();
        assertArrayEquals(BODY, got.asByteArray());
        assertEquals(done.checksumSHA256(), got.response().checksumSHA256());
        assertEquals(ChecksumType.COMPOSITE, got.response().checksumType());
    }

    @Test
    void fullObject() {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .checksumAlgorithm(ChecksumAlgorithm.CRC32)
                .checksumType(ChecksumType.FULL_OBJECT)).uploadId();
        List<CompletedPart> parts = Stream.of(1, 2).map(number -> {
            UploadPartResponse done = upload(id, number, ChecksumAlgorithm.CRC32);
            return CompletedPart.builder().partNumber(number)
                    .eTag(done.eTag()).checksumCRC32(done.checksumCRC32()).build();
        }).toList();
        assertRefused("400 BadDigest", () -> S3.completeMultipartUpload(
                r -> r.bucket(bucket).key(KEY).uploadId(id).multipartUpload(m -> m.parts(parts))
                        .checksumType(ChecksumType.FULL_OBJECT)
                        .checksumCRC32(Checksums.crc32(data(5)))));
        S3.completeMultipartUpload(
                r -> r.bucket(bucket).key(KEY).uploadId(id).multipartUpload(m -> m.parts(parts))
                        .checksumType(ChecksumType.FULL_OBJECT)
                        .checksumCRC32(Checksums.crc32(BODY)));
        ResponseBytes<GetObjectResponse> got = get();
        assertArrayEquals(BODY, got.asByteArray());
        assertEquals(Checksums.crc32(BODY), got.response().checksumCRC32());
        assertEquals(ChecksumType.FULL_OBJECT, got.response().checksumType());
    }

    @Test
    void wrongOfAPart() {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .checksumAlgorithm(ChecksumAlgorithm.SHA256)).uploadId();
        String wrong = Base64.getEncoder().encodeToString(new byte[32]);
        assertRefused("400 BadDigest", () -> S3.uploadPart(
                r -> r.bucket(bucket).key(KEY).uploadId(id).partNumber(1).checksumSHA256(wrong),
                RequestBody.fromString("x")));
        UploadPartResponse done = upload(id, 1, ChecksumAlgorithm.SHA256);
        assertRefused("400 InvalidPart", () -> S3.completeMultipartUpload(
                r -> r.bucket(bucket).key(KEY).uploadId(id).multipartUpload(m -> m.parts(p -> p
                        .partNumber(1).eTag(done.eTag()).checksumSHA256(wrong)))));
    }

    @Test
    void anotherAlgorithmThanTheUploads() {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .checksumAlgorithm(ChecksumAlgorithm.SHA256)).uploadId();
        assertRefused("400 InvalidRequest", () -> upload(id, 1, ChecksumAlgorithm.CRC32_C));
    }
}
