// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.client.config.ClientOverrideConfiguration;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.PutObjectResponse;

/** Encryption with the client's key (SSE-C). */
class CustomerKeyTest extends S3Test {
    private static final String KEY = "k";
    private static final byte[] BODY = data(300_000);
    private static final Secret SECRET = new Secret(32);
    // The server needs to hear of TLS before it takes a key.
    private static final S3Client TLS = Clients.sync()
            .overrideConfiguration(ClientOverrideConfiguration.builder()
                    .putHeader("X-Forwarded-Proto", "https").build())
            .build();

    /** A key as the headers have it. */
    private static final class Secret {
        final String key;
        final String md5;

        Secret(int size) {
            key = Checksums.base64(data(size));
            md5 = Checksums.md5(data(size));
        }
    }

    private PutObjectResponse putSecret(String key, Secret secret) {
        return TLS.putObject(
                r -> r.bucket(bucket).key(key).sseCustomerAlgorithm("AES256")
                        .sseCustomerKey(secret.key).sseCustomerKeyMD5(secret.md5),
                RequestBody.fromBytes(BODY));
    }

    private byte[] get(String key, String range) {
        return TLS.getObjectAsBytes(r -> r.bucket(bucket).key(key).range(range)
                .sseCustomerAlgorithm("AES256").sseCustomerKey(SECRET.key)
                .sseCustomerKeyMD5(SECRET.md5)).asByteArray();
    }

    @Test
    void putAndGet() {
        PutObjectResponse put = putSecret(KEY, SECRET);
        assertEquals("AES256", put.sseCustomerAlgorithm());
        assertEquals(SECRET.md5, put.sseCustomerKeyMD5());
        assertArrayEquals(BODY, get(KEY, null));
        assertArrayEquals(Arrays.copyOfRange(BODY, 5, 70_000), get(KEY, "bytes=5-69999"));
        assertEquals((long) BODY.length, TLS.headObject(r -> r.bucket(bucket).key(KEY)
                .sseCustomerAlgorithm("AES256").sseCustomerKey(SECRET.key)
                .sseCustomerKeyMD5(SECRET.md5)).contentLength());
    }

    @Test
    void refused() {
        putSecret(KEY, SECRET);
        assertRefused("400 InvalidRequest", () -> bytes(KEY));
        assertRefused("400 null", () -> TLS.headObject(r -> r.bucket(bucket).key(KEY)));
        byte[] other = data(33);
        String otherKey = Checksums.base64(Arrays.copyOf(other, 32));
        String otherMd5 = Checksums.md5(Arrays.copyOf(other, 32));
        assertRefused("403 AccessDenied", () -> TLS.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).sseCustomerAlgorithm("AES256")
                        .sseCustomerKey(otherKey).sseCustomerKeyMD5(otherMd5)));
        assertRefused("400 InvalidArgument", () -> putSecret("short", new Secret(16)));
        put("plain", "x");
        assertRefused("400 InvalidRequest", () -> get("plain", null));
        // Without TLS.
        assertRefused("400 InvalidRequest", () -> S3.putObject(
                r -> r.bucket(bucket).key("http").sseCustomerAlgorithm("AES256")
                        .sseCustomerKey(SECRET.key).sseCustomerKeyMD5(SECRET.md5),
                RequestBody.fromBytes(BODY)));
    }

    @Test
    void copies() {
        putSecret(KEY, SECRET);
        TLS.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .copySourceSSECustomerAlgorithm("AES256").copySourceSSECustomerKey(SECRET.key)
                .copySourceSSECustomerKeyMD5(SECRET.md5)
                .destinationBucket(bucket).destinationKey("plain"));
        assertArrayEquals(BODY, bytes("plain"));
        TLS.copyObject(r -> r.sourceBucket(bucket).sourceKey("plain")
                .destinationBucket(bucket).destinationKey("secret")
                .sseCustomerAlgorithm("AES256").sseCustomerKey(SECRET.key)
                .sseCustomerKeyMD5(SECRET.md5));
        assertArrayEquals(BODY, get("secret", null));
        assertRefused("400 InvalidRequest", () -> bytes("secret"));
    }

    @Test
    void parts() {
        String id = TLS.createMultipartUpload(r -> r.bucket(bucket).key(KEY)
                .sseCustomerAlgorithm("AES256").sseCustomerKey(SECRET.key)
                .sseCustomerKeyMD5(SECRET.md5)).uploadId();
        assertRefused("400 InvalidRequest", () -> TLS.uploadPart(
                r -> r.bucket(bucket).key(KEY).uploadId(id).partNumber(1),
                RequestBody.fromBytes(BODY)));
        String etag = TLS.uploadPart(
                r -> r.bucket(bucket).key(KEY).uploadId(id).partNumber(1)
                        .sseCustomerAlgorithm("AES256").sseCustomerKey(SECRET.key)
                        .sseCustomerKeyMD5(SECRET.md5),
                RequestBody.fromBytes(BODY)).eTag();
        TLS.completeMultipartUpload(r -> r.bucket(bucket).key(KEY).uploadId(id).multipartUpload(
                m -> m.parts(CompletedPart.builder().partNumber(1).eTag(etag).build())));
        assertArrayEquals(BODY, get(KEY, null));
    }
}
