// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.transfer.s3.S3TransferManager;
import software.amazon.awssdk.transfer.s3.model.FileUpload;

/** The client in native code (CRT), which has a signer and an HTTP client of its own. */
class CrtTest extends S3Test {
    private static final String KEY = "ü k/1";
    private final S3AsyncClient crt = Clients.crt();

    @AfterEach
    void close() {
        crt.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 200_000, 6 * MIB, 21 * MIB})
    void putAndGet(int size) {
        byte[] want = data(size);
        crt.putObject(r -> r.bucket(bucket).key(KEY), AsyncRequestBody.fromBytes(want)).join();
        assertArrayEquals(want, crt.getObject(
                r -> r.bucket(bucket).key(KEY).checksumMode(ChecksumMode.ENABLED),
                AsyncResponseTransformer.toBytes()).join().asByteArray());
        assertArrayEquals(want, bytes(KEY));
    }

    @Test
    void refused() {
        // This client first asks with HEAD, whose answer has no code.
        assertRefused("404 null", () -> crt.getObject(
                r -> r.bucket(bucket).key("none"), AsyncResponseTransformer.toBytes()).join());
        assertRefused("404 NoSuchBucket", () -> crt.putObject(
                r -> r.bucket(bucket + "-none").key("k"), AsyncRequestBody.fromString("x")).join());
    }

    @Test
    void copyInParts() {
        byte[] want = data(12 * MIB);
        put(KEY, want);
        crt.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket).destinationKey("copy")).join();
        assertArrayEquals(want, bytes("copy"));
    }

    @Test
    void transferManager(@TempDir Path directory) throws Exception {
        byte[] want = data(13 * MIB);
        Path source = Files.write(directory.resolve("source"), want);
        try (S3TransferManager transfers = S3TransferManager.builder().s3Client(crt).build()) {
            FileUpload upload = transfers.uploadFile(r -> r.source(source)
                    .putObjectRequest(p -> p.bucket(bucket).key(KEY)));
            upload.completionFuture().join();
            assertEquals(want.length, upload.progress().snapshot().transferredBytes());
            Path target = directory.resolve("target");
            transfers.downloadFile(r -> r.destination(target)
                    .getObjectRequest(g -> g.bucket(bucket).key(KEY))).completionFuture().join();
            assertArrayEquals(want, Files.readAllBytes(target));
        }
        assertArrayEquals(want, bytes(KEY));
    }
}
