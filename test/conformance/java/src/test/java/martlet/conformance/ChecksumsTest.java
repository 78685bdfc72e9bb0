// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.checksums.RequestChecksumCalculation;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.ChecksumType;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;

/** Checksums that the SDK computes, and those that an application states. */
class ChecksumsTest extends S3Test {
    private static final String KEY = "k";
    private static final byte[] BODY = data(200_000);

    @ParameterizedTest
    @EnumSource(names = {"CRC32", "CRC32_C", "CRC64_NVME", "SHA1", "SHA256"})
    void computedByTheSdk(ChecksumAlgorithm algorithm) {
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).checksumAlgorithm(algorithm),
                RequestBody.fromBytes(BODY));
        ResponseBytes<GetObjectResponse> got = S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).checksumMode(ChecksumMode.ENABLED));
        assertArrayEquals(BODY, got.asByteArray());
        GetObjectResponse response = got.response();
        assertEquals(ChecksumType.FULL_OBJECT, response.checksumType());
        switch (algorithm) {
            case CRC32 -> assertEquals(Checksums.crc32(BODY), response.checksumCRC32());
            case CRC32_C -> assertEquals(Checksums.crc32c(BODY), response.checksumCRC32C());
            case CRC64_NVME -> assertNotNull(response.checksumCRC64NVME());
            case SHA1 -> assertEquals(Checksums.sha1(BODY), response.checksumSHA1());
            default -> assertEquals(Checksums.sha256(BODY), response.checksumSHA256());
        }
    }

    @Test
    void statedByTheApplication() {
        String right = Checksums.sha256(BODY);
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).checksumSHA256(right), RequestBody.fromBytes(BODY));
        assertEquals(right, head().checksumSHA256());
        assertNull(head().checksumCRC32());
        String wrong = Checksums.sha256(data(1));
        assertRefused("400 BadDigest", () -> S3.putObject(
                r -> r.bucket(bucket).key(KEY).checksumSHA256(wrong), RequestBody.fromString("x")));
        assertArrayEquals(BODY, bytes(KEY));
    }

    @Test
    void contentMd5() {
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).contentMD5(Checksums.md5(BODY)),
                RequestBody.fromBytes(BODY));
        assertRefused("400 BadDigest", () -> S3.putObject(
                r -> r.bucket(bucket).key(KEY).contentMD5(Checksums.md5(data(1))),
                RequestBody.fromString("x")));
        assertArrayEquals(BODY, bytes(KEY));
    }

    @Test
    void noneIsCrc64Nvme() {
        Sent sent = new Sent();
        try (S3Client s3 = Clients.sync()
                .requestChecksumCalculation(RequestChecksumCalculation.WHEN_REQUIRED)
                .overrideConfiguration(c -> c.addExecutionInterceptor(sent))
                .build()) {
            s3.putObject(r -> r.bucket(bucket).key(KEY), RequestBody.fromBytes(BODY));
            assertEquals("", sent.header("x-amz-trailer"));
            assertEquals(
                    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", sent.header("x-amz-content-sha256"));
        }
        assertArrayEquals(BODY, bytes(KEY));
        assertNotNull(head().checksumCRC64NVME());
    }

    @Test
    void shownOnRequestOnly() {
        put(KEY, BODY);
        HeadObjectResponse plain = S3.headObject(r -> r.bucket(bucket).key(KEY));
        assertNull(plain.checksumCRC32());
        assertEquals(Checksums.crc32(BODY), head().checksumCRC32());
    }

    @Test
    void keptByCopies() {
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).checksumAlgorithm(ChecksumAlgorithm.CRC32_C),
                RequestBody.fromBytes(BODY));
        String want = Checksums.crc32c(BODY);
        assertEquals(want, S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket)
                .destinationKey("same")).copyObjectResult().checksumCRC32C());
        assertEquals(Checksums.sha256(BODY), S3.copyObject(r -> r.sourceBucket(bucket)
                .sourceKey(KEY)
                .destinationBucket(bucket)
                .destinationKey("other")
                .checksumAlgorithm(ChecksumAlgorithm.SHA256)).copyObjectResult().checksumSHA256());
    }

    private HeadObjectResponse head() {
        return S3.headObject(
                r -> r.bucket(bucket).key(KEY).checksumMode(ChecksumMode.ENABLED));
    }
}
