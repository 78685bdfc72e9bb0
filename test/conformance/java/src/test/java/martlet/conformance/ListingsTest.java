// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.DeletedObject;
import software.amazon.awssdk.services.s3.model.EncodingType;
import software.amazon.awssdk.services.s3.model.ListObjectsResponse;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Object;

/** Listings in pages, in folders, and of more keys than a page has; removal of many keys. */
class ListingsTest extends S3Test {
    private static final int MANY = 1050;

    private void putAll(String... keys) {
        Arrays.stream(keys).forEach(key -> put(key, key));
    }

    private void putMany() {
        List<CompletableFuture<?>> running = new ArrayList<>();
        for (String key : manyKeys()) {
            running.add(ASYNC.putObject(
                    r -> r.bucket(bucket).key(key), AsyncRequestBody.fromString("x")));
            if (running.size() == 16) { // fewer than the client's connections
                running.forEach(CompletableFuture::join);
                running.clear();
            }
        }
        running.forEach(CompletableFuture::join);
    }

    private static List<String> manyKeys() {
        return IntStream.range(0, MANY).mapToObj(n -> String.format("part-%05d", n)).toList();
    }

    @Test
    void manyKeysAreListedAndDeleted() {
        putMany();
        ListObjectsV2Response page = S3.listObjectsV2(r -> r.bucket(bucket));
        assertEquals(1000, page.keyCount());
        assertEquals(1000, page.maxKeys());
        assertTrue(page.isTruncated());
        assertNotNull(page.nextContinuationToken());
        assertEquals(manyKeys(), S3.listObjectsV2Paginator(r -> r.bucket(bucket))
                .contents().stream().map(S3Object::key).toList());
        List<String> async = new ArrayList<>();
        ASYNC.listObjectsV2Paginator(r -> r.bucket(bucket).maxKeys(300))
                .contents().subscribe(found -> async.add(found.key())).join();
        assertEquals(manyKeys(), async);
        List<ObjectIdentifier> doomed = manyKeys().stream().limit(1000)
                .map(key -> ObjectIdentifier.builder().key(key).build()).toList();
        assertEquals(doomed.size(), S3.deleteObjects(
                r -> r.bucket(bucket).delete(d -> d.objects(doomed))).deleted().size());
        assertEquals(MANY - 1000, S3.listObjectsV2(r -> r.bucket(bucket)).keyCount());
        assertRefused("400 MalformedXML", () -> S3.deleteObjects(
                r -> r.bucket(bucket).delete(d -> d.objects(manyKeys().stream()
                        .map(key -> ObjectIdentifier.builder().key(key).build()).toList()))));
    }

    @Test
    void folders() {
        putAll("a/1", "a/2", "a/b/3", "b", "c/4", "ü +&/5");
        List<String> found = new ArrayList<>();
        for (ListObjectsV2Response page :
                S3.listObjectsV2Paginator(r -> r.bucket(bucket).delimiter("/").maxKeys(2))) {
            assertTrue(page.contents().size() + page.commonPrefixes().size() <= 2);
            page.commonPrefixes().stream().map(CommonPrefix::prefix).forEach(found::add);
            page.contents().stream().map(S3Object::key).forEach(found::add);
        }
        assertEquals(List.of("a/", "b", "c/", "ü +&/"), found);
        ListObjectsV2Response inner =
                S3.listObjectsV2(r -> r.bucket(bucket).prefix("a/").delimiter("/"));
        assertEquals(
                List.of("a/1", "a/2"), inner.contents().stream().map(S3Object::key).toList());
        assertEquals("a/b/", inner.commonPrefixes().get(0).prefix());
        assertEquals(3, inner.keyCount());
        assertFalse(inner.isTruncated());
    }

    @Test
    void whatARowShows() {
        String etag = put("ü k", "12345").eTag();
        S3Object row = S3.listObjectsV2(
                r -> r.bucket(bucket).encodingType(EncodingType.URL).fetchOwner(true))
                .contents().get(0);
        assertEquals("ü k", row.key());
        assertEquals(5, row.size());
        assertEquals(etag, row.eTag());
        assertEquals("STANDARD", row.storageClassAsString());
        assertNotNull(row.owner().id());
        assertEquals(
                S3.headObject(r -> r.bucket(bucket).key("ü k")).lastModified().getEpochSecond(),
                row.lastModified().getEpochSecond(), 1);
    }

    @Test
    void keysThatXmlDoesNotHave() {
        String key = "a\u0001\ufffe\r\n\t";
        put(key, "x");
        assertEquals(key, S3.listObjectsV2(
                r -> r.bucket(bucket).encodingType(EncodingType.URL)).contents().get(0).key());
        S3.deleteObject(r -> r.bucket(bucket).key(key)); // a list in XML cannot name it
    }

    @Test
    void markersOfDirectories() {
        S3.putObject(
                r -> r.bucket(bucket).key("dir/").contentType("application/x-directory"),
                RequestBody.empty());
        assertEquals("dir/", S3.listObjectsV2(r -> r.bucket(bucket).delimiter("/"))
                .commonPrefixes().get(0).prefix());
        put("dir/a", "1");
        assertEquals(List.of("dir/", "dir/a"), S3.listObjectsV2(
                r -> r.bucket(bucket).prefix("dir/").delimiter("/")).contents().stream()
                .map(S3Object::key).toList());
        assertEquals("application/x-directory",
                S3.headObject(r -> r.bucket(bucket).key("dir/")).contentType());
    }

    @Test
    void startAfter() {
        putAll("a", "b", "c", "d");
        assertEquals(List.of("c", "d"), S3.listObjectsV2Paginator(
                r -> r.bucket(bucket).startAfter("b").maxKeys(1)).contents().stream()
                .map(S3Object::key).toList());
        assertEquals(0, S3.listObjectsV2(r -> r.bucket(bucket).startAfter("d")).keyCount());
        assertEquals(0, S3.listObjectsV2(r -> r.bucket(bucket).maxKeys(0)).keyCount());
    }

    @Test
    void firstVersionOfTheListing() {
        putAll("a/1", "b", "ü");
        ListObjectsResponse first =
                S3.listObjects(r -> r.bucket(bucket).delimiter("/").maxKeys(2));
        assertTrue(first.isTruncated());
        assertEquals("a/", first.commonPrefixes().get(0).prefix());
        assertEquals("b", first.nextMarker());
        ListObjectsResponse second =
                S3.listObjects(r -> r.bucket(bucket).delimiter("/").marker(first.nextMarker()));
        assertEquals(List.of("ü"), second.contents().stream().map(S3Object::key).toList());
        assertFalse(second.isTruncated());
    }

    @Test
    void deleteObjects() {
        putAll("a", "b", "ü <&>\"'");
        ObjectIdentifier[] doomed = List.of("a", "none", "ü <&>\"'").stream()
                .map(key -> ObjectIdentifier.builder().key(key).build())
                .toArray(ObjectIdentifier[]::new);
        List<DeletedObject> done = S3.deleteObjects(
                r -> r.bucket(bucket).delete(d -> d.objects(doomed))).deleted();
        assertEquals(List.of("a", "none", "ü <&>\"'"),
                done.stream().map(DeletedObject::key).sorted().toList());
        assertEquals(List.of("b"), S3.listObjectsV2(r -> r.bucket(bucket)).contents().stream()
                .map(S3Object::key).toList());
    }
}
