// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static software.amazon.awssdk.services.s3.model.ChecksumMode.ENABLED;

import java.time.Duration;
import java.time.Instant;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.PutObjectResponse;

/** Objects of all sizes through each HTTP client, with bodies that are signed and that are not. */
class PutGetTest extends S3Test {
    private static final String KEY = "ü k/+&1";

    /** Sizes beside those of a signed chunk (128 KiB) and of the server's buffers. */
    static IntStream sizes() {
        return IntStream.of(
                0, 1, 1000, 65_536, 131_071, 131_072, 131_073, MIB, 5 * MIB + 1, 6 * MIB);
    }

    @ParameterizedTest
    @MethodSource("sizes")
    void sync(int size) {
        Sent sent = new Sent();
        try (S3Client s3 = Clients.sync()
                .overrideConfiguration(c -> c.addExecutionInterceptor(sent))
                .build()) {
            roundTrip(s3, size);
            assertEquals(
                    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
                    sent.header("x-amz-content-sha256"));
        }
    }

    @ParameterizedTest
    @MethodSource("sizes")
    void syncAsOverTls(int size) {
        Sent sent = new Sent();
        try (S3Client s3 = Clients.sync()
                .putAuthScheme(new AsOverTls())
                .overrideConfiguration(c -> c.addExecutionInterceptor(sent))
                .build()) {
            roundTrip(s3, size);
            assertEquals("STREAMING-UNSIGNED-PAYLOAD-TRAILER", sent.header("x-amz-content-sha256"));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 10, 200_000, 6 * MIB})
    void syncThroughUrlConnection(int size) {
        try (S3Client s3 = Clients.sync().httpClient(UrlConnectionHttpClient.create()).build()) {
            roundTrip(s3, size);
        }
    }

    @ParameterizedTest
    @MethodSource("sizes")
    void async(int size) {
        roundTrip(ASYNC, size);
    }

    @ParameterizedTest
    @MethodSource("sizes")
    void asyncAsOverTls(int size) {
        try (S3AsyncClient s3 = Clients.async().putAuthScheme(new AsOverTls()).build()) {
            roundTrip(s3, size);
        }
    }

    @Test
    void signedInOnePiece() {
        Sent sent = new Sent();
        try (S3Client s3 = Clients.sync()
                .serviceConfiguration(c -> c.chunkedEncodingEnabled(false))
                .overrideConfiguration(c -> c.addExecutionInterceptor(sent))
                .build()) {
            byte[] want = data(200_000);
            s3.putObject(r -> r.bucket(bucket).key(KEY), RequestBody.fromBytes(want));
            assertTrue(sent.header("x-amz-content-sha256").matches("[0-9a-f]{64}"));
            assertArrayEquals(want, bytes(KEY));
        }
    }

    @Test
    void headersOfAnObject() {
        S3.putObject(
                r -> r.bucket(bucket)
                        .key(KEY)
                        .contentType("text/csv")
                        .contentEncoding("gzip")
                        .contentLanguage("de")
                        .contentDisposition("attachment; filename=\"a.csv\"")
                        .cacheControl("max-age=60")
                        .expires(Instant.ofEpochSecond(2_000_000_000)),
                RequestBody.fromBytes(data(300)));
        HeadObjectResponse head = S3.headObject(r -> r.bucket(bucket).key(KEY));
        assertEquals("text/csv", head.contentType());
        assertEquals("gzip", head.contentEncoding()); // the SDK sends "gzip" and "aws-chunked"
        assertEquals("de", head.contentLanguage());
        assertEquals("attachment; filename=\"a.csv\"", head.contentDisposition());
        assertEquals("max-age=60", head.cacheControl());
        assertEquals("Wed, 18 May 2033 03:33:20 GMT", head.expiresString());
        assertEquals(300, head.contentLength());
        Duration age = Duration.between(head.lastModified(), Instant.now());
        assertTrue(age.abs().toMinutes() < 5, age.toString());
    }

    @Test
    void headersOfTheAnswerByRequest() {
        put(KEY, "x");
        GetObjectResponse got = S3.getObjectAsBytes(r -> r.bucket(bucket)
                .key(KEY)
                .responseContentType("image/png")
                .responseContentDisposition("inline; filename=b")
                .responseCacheControl("no-cache")).response();
        assertEquals("image/png", got.contentType());
        assertEquals("inline; filename=b", got.contentDisposition());
        assertEquals("no-cache", got.cacheControl());
    }

    @Test
    void overwriteAndDelete() {
        String first = put(KEY, "1").eTag();
        String second = put(KEY, "22").eTag();
        assertFalse(first.equals(second));
        assertEquals("22", text(KEY));
        S3.deleteObject(r -> r.bucket(bucket).key(KEY));
        S3.deleteObject(r -> r.bucket(bucket).key(KEY)); // what is gone may be deleted
        assertRefused("404 NoSuchKey", () -> bytes(KEY));
    }

    private void roundTrip(S3Client s3, int size) {
        byte[] want = data(size);
        PutObjectResponse put =
                s3.putObject(r -> r.bucket(bucket).key(KEY), RequestBody.fromBytes(want));
        ResponseBytes<GetObjectResponse> got =
                s3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).checksumMode(ENABLED));
        compare(want, put, got);
        // Leave a write as the last request.
        s3.putObject(r -> r.bucket(bucket).key(KEY), RequestBody.fromBytes(want));
    }

    private void roundTrip(S3AsyncClient s3, int size) {
        byte[] want = data(size);
        PutObjectResponse put = s3.putObject(
                r -> r.bucket(bucket).key(KEY), AsyncRequestBody.fromBytes(want)).join();
        compare(want, put, s3.getObject(
                r -> r.bucket(bucket).key(KEY).checksumMode(ENABLED),
                AsyncResponseTransformer.toBytes()).join());
    }

    private static void compare(
            byte[] want, PutObjectResponse put, ResponseBytes<GetObjectResponse> got) {
        assertArrayEquals(want, got.asByteArray());
        assertEquals(want.length, got.response().contentLength());
        assertEquals(Checksums.etag(want), put.eTag());
        assertEquals(put.eTag(), got.response().eTag());
        // The SDK's default for writes. Of a read, it compares the checksum with the body.
        assertEquals(Checksums.crc32(want), put.checksumCRC32());
        assertEquals(put.checksumCRC32(), got.response().checksumCRC32());
    }
}
