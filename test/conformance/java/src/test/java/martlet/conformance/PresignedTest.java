// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.awscore.presigner.PresignedRequest;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

/** Presigned URLs, used with the HTTP client of Java. */
class PresignedTest extends S3Test {
    private static final String KEY = "ü k/+&1";
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private final S3Presigner presigner = Clients.presigner();
    private final HttpClient http = HttpClient.newHttpClient();

    @AfterEach
    void close() {
        presigner.close();
    }

    private HttpResponse<byte[]> send(PresignedRequest signed, BodyPublisher body)
            throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(signed.url().toString()))
                .method(signed.httpRequest().method().name(), body);
        signed.signedHeaders().forEach((name, values) -> {
            if (!name.equalsIgnoreCase("host")) { // the client sets it
                values.forEach(value -> request.header(name, value));
            }
        });
        return http.send(request.build(), BodyHandlers.ofByteArray());
    }

    private HttpResponse<byte[]> send(PresignedRequest signed) throws Exception {
        return send(signed, BodyPublishers.noBody());
    }

    @Test
    void get() throws Exception {
        put(KEY, data(5000));
        var signed = presigner.presignGetObject(r -> r.signatureDuration(MINUTE)
                .getObjectRequest(g -> g.bucket(bucket).key(KEY)
                        .responseContentType("text/x-test")));
        assertTrue(signed.isBrowserExecutable());
        HttpResponse<byte[]> answer = send(signed);
        assertEquals(200, answer.statusCode());
        assertArrayEquals(data(5000), answer.body());
        assertEquals("text/x-test", answer.headers().firstValue("content-type").orElse(""));
    }

    @Test
    void put() throws Exception {
        var signed = presigner.presignPutObject(r -> r.signatureDuration(MINUTE)
                .putObjectRequest(p -> p.bucket(bucket).key(KEY)
                        .contentType("text/csv").metadata(Map.of("a", "1"))));
        assertFalse(signed.isBrowserExecutable());
        byte[] want = data(200_000);
        HttpResponse<byte[]> answer = send(signed, BodyPublishers.ofByteArray(want));
        assertEquals(200, answer.statusCode(), new String(answer.body()));
        assertArrayEquals(want, bytes(KEY));
        var head = S3.headObject(r -> r.bucket(bucket).key(KEY));
        assertEquals("text/csv", head.contentType());
        assertEquals(Map.of("a", "1"), head.metadata());
    }

    @Test
    void aSignedHeaderIsNeeded() throws Exception {
        var signed = presigner.presignPutObject(r -> r.signatureDuration(MINUTE)
                .putObjectRequest(p -> p.bucket(bucket).key(KEY).contentType("text/csv")));
        HttpRequest request = HttpRequest.newBuilder(URI.create(signed.url().toString()))
                .header("content-type", "text/plain").PUT(BodyPublishers.ofString("x")).build();
        HttpResponse<String> answer = http.send(request, BodyHandlers.ofString());
        assertEquals(403, answer.statusCode());
        assertTrue(answer.body().contains("SignatureDoesNotMatch"), answer.body());
    }

    @Test
    void expired() throws Exception {
        put(KEY, "x");
        var signed = presigner.presignGetObject(r -> r.signatureDuration(Duration.ofSeconds(1))
                .getObjectRequest(g -> g.bucket(bucket).key(KEY)));
        Thread.sleep(2500);
        HttpResponse<byte[]> answer = send(signed);
        assertEquals(403, answer.statusCode());
        String body = new String(answer.body());
        assertTrue(body.contains("<Code>AccessDenied</Code>"), body);
        assertTrue(body.contains("Request has expired"), body);
    }

    @Test
    void changed() throws Exception {
        put(KEY, "x");
        var signed = presigner.presignGetObject(r -> r.signatureDuration(MINUTE)
                .getObjectRequest(g -> g.bucket(bucket).key("other")));
        String url = signed.url().toString().replace("/other", "/x");
        HttpResponse<String> answer = http.send(
                HttpRequest.newBuilder(URI.create(url)).build(), BodyHandlers.ofString());
        assertEquals(403, answer.statusCode());
        assertTrue(answer.body().contains("SignatureDoesNotMatch"), answer.body());
    }

    @Test
    void delete() throws Exception {
        put(KEY, "x");
        assertEquals(204, send(presigner.presignDeleteObject(r -> r.signatureDuration(MINUTE)
                .deleteObjectRequest(d -> d.bucket(bucket).key(KEY)))).statusCode());
        assertRefused("404 NoSuchKey", () -> text(KEY));
    }

    @Test
    void head() throws Exception {
        put(KEY, "12345");
        HttpResponse<byte[]> answer =
                send(presigner.presignHeadObject(r -> r.signatureDuration(MINUTE)
                        .headObjectRequest(h -> h.bucket(bucket).key(KEY))));
        assertEquals(200, answer.statusCode());
        assertEquals("5", answer.headers().firstValue("content-length").orElse(""));
    }

    @Test
    void parts() throws Exception {
        String id = S3.createMultipartUpload(r -> r.bucket(bucket).key(KEY)).uploadId();
        HttpResponse<byte[]> part = send(
                presigner.presignUploadPart(r -> r.signatureDuration(MINUTE).uploadPartRequest(
                        p -> p.bucket(bucket).key(KEY).uploadId(id).partNumber(1))),
                BodyPublishers.ofByteArray(data(100)));
        assertEquals(200, part.statusCode(), new String(part.body()));
        String etag = part.headers().firstValue("etag").orElse("");
        assertEquals(List.of(etag), S3.listParts(r -> r.bucket(bucket).key(KEY).uploadId(id))
                .parts().stream().map(p -> p.eTag()).toList());
        S3.completeMultipartUpload(r -> r.bucket(bucket).key(KEY).uploadId(id)
                .multipartUpload(m -> m.parts(p -> p.partNumber(1).eTag(etag))));
        assertArrayEquals(data(100), bytes(KEY));
    }
}
