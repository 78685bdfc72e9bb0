// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.S3Object;
import software.amazon.awssdk.transfer.s3.S3TransferManager;
import software.amazon.awssdk.transfer.s3.model.DownloadFileRequest;
import software.amazon.awssdk.transfer.s3.model.DownloadRequest;
import software.amazon.awssdk.transfer.s3.model.FileDownload;
import software.amazon.awssdk.transfer.s3.model.FileUpload;
import software.amazon.awssdk.transfer.s3.model.ResumableFileDownload;

/** The transfer manager on the client of Java, with parts. */
class TransferManagerTest extends S3Test {
    private static final String KEY = "ü/large";
    private final S3AsyncClient client = Clients.async().multipartEnabled(true).build();
    private final S3TransferManager transfers =
            S3TransferManager.builder().s3Client(client).build();

    @TempDir
    Path directory;

    @AfterEach
    void close() {
        transfers.close();
        client.close();
    }

    @Test
    void files() throws IOException {
        byte[] want = data(25 * MIB);
        Path source = Files.write(directory.resolve("source"), want);
        FileUpload upload = transfers.uploadFile(r -> r.source(source)
                .putObjectRequest(p -> p.bucket(bucket).key(KEY).contentType("text/csv")));
        String etag = upload.completionFuture().join().response().eTag();
        assertTrue(etag.endsWith("-4\""), etag); // parts of 8 MiB
        assertEquals(want.length, upload.progress().snapshot().transferredBytes());
        assertEquals("text/csv", S3.headObject(r -> r.bucket(bucket).key(KEY)).contentType());
        Path target = directory.resolve("target");
        FileDownload download = transfers.downloadFile(r -> r.destination(target)
                .getObjectRequest(g -> g.bucket(bucket).key(KEY)));
        download.completionFuture().join();
        assertEquals(want.length, download.progress().snapshot().transferredBytes());
        assertArrayEquals(want, Files.readAllBytes(target));
    }

    @Test
    void bodiesInMemory() {
        byte[] want = data(9 * MIB);
        transfers.upload(r -> r.requestBody(AsyncRequestBody.fromBytes(want))
                .putObjectRequest(p -> p.bucket(bucket).key(KEY))).completionFuture().join();
        assertArrayEquals(want, transfers.download(DownloadRequest.builder()
                .getObjectRequest(g -> g.bucket(bucket).key(KEY))
                .responseTransformer(AsyncResponseTransformer.toBytes())
                .build()).completionFuture().join().result().asByteArray());
    }

    @Test
    void copy() {
        byte[] want = data(3 * MIB);
        put(KEY, want);
        transfers.copy(r -> r.copyObjectRequest(c -> c.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket).destinationKey("copy"))).completionFuture().join();
        assertArrayEquals(want, bytes("copy"));
    }

    @Test
    void aDownloadIsResumed() throws IOException {
        byte[] want = data(4 * MIB);
        put(KEY, want);
        HeadObjectResponse head = S3.headObject(r -> r.bucket(bucket).key(KEY));
        Path target = Files.write(directory.resolve("target"), Arrays.copyOf(want, MIB));
        DownloadFileRequest request = DownloadFileRequest.builder()
                .destination(target).getObjectRequest(g -> g.bucket(bucket).key(KEY)).build();
        ResumableFileDownload half = ResumableFileDownload.builder()
                .downloadFileRequest(request)
                .bytesTransferred((long) MIB)
                .totalSizeInBytes((long) want.length)
                .fileLastModified(Files.getLastModifiedTime(target).toInstant())
                .s3ObjectLastModified(head.lastModified())
                .build();
        transfers.resumeDownloadFile(half).completionFuture().join();
        assertArrayEquals(want, Files.readAllBytes(target));
    }

    @Test
    void directories() throws IOException {
        Path source = Files.createDirectories(directory.resolve("source/sub/ü b"));
        for (int number = 0; number < 12; number++) {
            Files.write(source.resolve("f " + number), data(number * 1000));
        }
        Files.write(directory.resolve("source/large"), data(9 * MIB));
        assertEquals(List.of(), transfers.uploadDirectory(
                r -> r.source(directory.resolve("source")).bucket(bucket).s3Prefix("in"))
                .completionFuture().join().failedTransfers());
        List<String> keys = S3.listObjectsV2(r -> r.bucket(bucket)).contents().stream()
                .map(S3Object::key).toList();
        assertEquals(13, keys.size());
        assertTrue(keys.contains("in/sub/ü b/f 11"), keys.toString());
        assertEquals(List.of(), transfers.downloadDirectory(
                r -> r.destination(directory.resolve("target")).bucket(bucket)
                        .listObjectsV2RequestTransformer(l -> l.prefix("in").maxKeys(5)))
                .completionFuture().join().failedTransfers());
        assertEquals(tree(directory.resolve("source")), tree(directory.resolve("target")));
    }

    /** The files under a directory, with the checksum of each. */
    private static TreeMap<String, String> tree(Path root) throws IOException {
        TreeMap<String, String> found = new TreeMap<>();
        try (Stream<Path> paths = Files.walk(root)) {
            paths.filter(Files::isRegularFile).forEach(path -> {
                try {
                    String sum = Checksums.sha256(Files.readAllBytes(path));
                    found.put(root.relativize(path).toString(), sum);
                } catch (IOException broken) {
                    throw new UncheckedIOException(broken);
                }
            });
        }
        return found;
    }
}
