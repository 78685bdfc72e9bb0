// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.PutObjectResponse;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** A test with a bucket of its own, which is removed afterwards. */
abstract class S3Test {
    static final int MIB = 1 << 20;
    static final S3Client S3 = Clients.sync().build();
    static final S3AsyncClient ASYNC = Clients.async().build();

    String bucket;

    @BeforeEach
    void makeBucket() {
        String name = getClass().getSimpleName().toLowerCase(Locale.ROOT);
        bucket = name + "-" + System.nanoTime();
        S3.createBucket(r -> r.bucket(bucket).objectLockEnabledForBucket(hasLocks()));
    }

    @AfterEach
    void removeBucket() {
        Buckets.remove(S3, bucket);
        assertTrue(S3.listBuckets(r -> r.prefix(bucket)).buckets().isEmpty());
    }

    /** Whether the bucket is made with object lock. */
    boolean hasLocks() {
        return false;
    }

    PutObjectResponse put(String key, String body) {
        return S3.putObject(r -> r.bucket(bucket).key(key), RequestBody.fromString(body));
    }

    PutObjectResponse put(String key, byte[] body) {
        return S3.putObject(r -> r.bucket(bucket).key(key), RequestBody.fromBytes(body));
    }

    byte[] bytes(String key) {
        return S3.getObjectAsBytes(r -> r.bucket(bucket).key(key)).asByteArray();
    }

    String text(String key) {
        return new String(bytes(key), StandardCharsets.UTF_8);
    }

    /** Bytes that look like chance, the same ones for each size. */
    static byte[] data(int size) {
        byte[] made = new byte[size];
        new Random(size).nextBytes(made);
        return made;
    }

    /** Check that the call is refused with the status and the code, such as "404 NoSuchKey". */
    static S3Exception assertRefused(String answer, Executable call) {
        Throwable thrown = assertThrows(Exception.class, call);
        if (thrown instanceof CompletionException) {
            thrown = thrown.getCause();
        }
        if (!(thrown instanceof S3Exception)) {
            throw new AssertionError("no answer of the server: " + thrown, thrown);
        }
        S3Exception refused = (S3Exception) thrown;
        assertEquals(
                answer, refused.statusCode() + " " + refused.awsErrorDetails().errorCode(),
                refused.getMessage());
        return refused;
    }
}
