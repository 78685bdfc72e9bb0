// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.async.BlockingInputStreamAsyncRequestBody;
import software.amazon.awssdk.core.async.BlockingOutputStreamAsyncRequestBody;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.core.sync.ResponseTransformer;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.PutObjectResponse;

/** Bodies from streams, also of a length that is not known before, and bodies read as streams. */
class StreamsTest extends S3Test {
    private static final String KEY = "stream";

    @ParameterizedTest
    @ValueSource(ints = {0, 1000, 9 * MIB, 17 * MIB})
    void unknownLengthFromInputStream(int size) {
        byte[] want = data(size);
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (S3AsyncClient s3 = Clients.async().multipartEnabled(true).build()) {
            s3.putObject(r -> r.bucket(bucket).key(KEY), AsyncRequestBody.fromInputStream(
                    b -> b.inputStream(new ByteArrayInputStream(want)).executor(threads))).join();
        } finally {
            threads.shutdown();
        }
        assertArrayEquals(want, bytes(KEY));
    }

    @Test
    void unknownLengthFromOutputStream() throws IOException {
        byte[] want = data(9 * MIB);
        try (S3AsyncClient s3 = Clients.async().multipartEnabled(true).build()) {
            BlockingOutputStreamAsyncRequestBody body =
                    AsyncRequestBody.forBlockingOutputStream(null);
            CompletableFuture<PutObjectResponse> done =
                    s3.putObject(r -> r.bucket(bucket).key(KEY), body);
            try (OutputStream out = body.outputStream()) {
                for (int from = 0; from < want.length; from += 1000) {
                    out.write(want, from, Math.min(1000, want.length - from));
                }
            }
            done.join();
        }
        assertArrayEquals(want, bytes(KEY));
    }

    @Test
    void unknownLengthFromBlockingInputStream() {
        byte[] want = data(9 * MIB);
        try (S3AsyncClient s3 = Clients.async().multipartEnabled(true).build()) {
            BlockingInputStreamAsyncRequestBody body =
                    AsyncRequestBody.forBlockingInputStream(null);
            CompletableFuture<PutObjectResponse> done =
                    s3.putObject(r -> r.bucket(bucket).key(KEY), body);
            body.writeInputStream(new ByteArrayInputStream(want));
            done.join();
        }
        assertArrayEquals(want, bytes(KEY));
    }

    @Test
    void unknownLengthOfSyncBody() {
        byte[] want = data(300_000);
        S3.putObject(r -> r.bucket(bucket).key(KEY), RequestBody.fromContentProvider(
                () -> new ByteArrayInputStream(want), "application/octet-stream"));
        assertArrayEquals(want, bytes(KEY));
    }

    @Test
    void streamsOfKnownLength() {
        byte[] want = data(3 * MIB);
        S3.putObject(
                r -> r.bucket(bucket).key(KEY),
                RequestBody.fromInputStream(new ByteArrayInputStream(want), want.length));
        assertArrayEquals(want, bytes(KEY));
        BlockingInputStreamAsyncRequestBody body =
                AsyncRequestBody.forBlockingInputStream((long) want.length);
        CompletableFuture<PutObjectResponse> done =
                ASYNC.putObject(r -> r.bucket(bucket).key("async"), body);
        body.writeInputStream(new ByteArrayInputStream(want));
        done.join();
        assertArrayEquals(want, bytes("async"));
    }

    @Test
    void files(@TempDir Path directory) throws IOException {
        byte[] want = data(2 * MIB + 7);
        Path source = Files.write(directory.resolve("source"), want);
        S3.putObject(r -> r.bucket(bucket).key(KEY), source);
        S3.getObject(r -> r.bucket(bucket).key(KEY), directory.resolve("sync"));
        assertArrayEquals(want, Files.readAllBytes(directory.resolve("sync")));
        ASYNC.putObject(r -> r.bucket(bucket).key("async"), source).join();
        ASYNC.getObject(r -> r.bucket(bucket).key("async"), directory.resolve("async")).join();
        assertArrayEquals(want, Files.readAllBytes(directory.resolve("async")));
    }

    @Test
    void aReadThatIsAbortedLeavesTheClientUsable() throws IOException {
        byte[] want = data(6 * MIB);
        put(KEY, want);
        for (int time = 0; time < 60; time++) { // more often than the client has connections
            ResponseInputStream<GetObjectResponse> got = S3.getObject(
                    r -> r.bucket(bucket).key(KEY), ResponseTransformer.toInputStream());
            assertEquals(want[0], (byte) got.read());
            got.abort();
        }
        try (InputStream got = S3.getObject(r -> r.bucket(bucket).key(KEY))) {
            assertArrayEquals(want, got.readAllBytes());
        }
    }

    @Test
    void asyncReadAsStream() throws IOException {
        byte[] want = data(6 * MIB);
        put(KEY, want);
        try (InputStream got = ASYNC.getObject(
                r -> r.bucket(bucket).key(KEY),
                AsyncResponseTransformer.toBlockingInputStream()).join()) {
            assertArrayEquals(want, got.readAllBytes());
        }
    }
}
