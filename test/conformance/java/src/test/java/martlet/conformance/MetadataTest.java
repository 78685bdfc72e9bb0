// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.MetadataDirective;

/** Metadata of users. Most HTTP clients of Java send ASCII only, so applications encode values. */
class MetadataTest extends S3Test {
    private static final String WORDS = "grün 日本 🙂";

    private void putWith(Map<String, String> metadata) {
        S3.putObject(
                r -> r.bucket(bucket).key("k").metadata(metadata), RequestBody.fromString("x"));
    }

    private Map<String, String> metadata(String key) {
        return S3.headObject(r -> r.bucket(bucket).key(key)).metadata();
    }

    @Test
    void ascii() {
        Map<String, String> want =
                Map.of("name", "value", "with-dash", "a, b; c=\"d\"", "spark.mode", "1");
        putWith(want);
        assertEquals(want, metadata("k"));
        assertEquals(
                want, S3.getObjectAsBytes(r -> r.bucket(bucket).key("k")).response().metadata());
    }

    @Test
    void namesAreLowercase() {
        putWith(Map.of("CamelCase", "Value"));
        assertEquals(Map.of("camelcase", "Value"), metadata("k"));
    }

    @Test
    void encodedInPercents() {
        putWith(Map.of("words", URLEncoder.encode(WORDS, StandardCharsets.UTF_8)));
        String got = metadata("k").get("words");
        assertEquals(WORDS, URLDecoder.decode(got, StandardCharsets.UTF_8));
    }

    @Test
    void encodedAsInMail() {
        byte[] words = WORDS.getBytes(StandardCharsets.UTF_8);
        String want = "=?UTF-8?B?" + Checksums.base64(words) + "?=";
        putWith(Map.of("words", want));
        assertEquals(want, metadata("k").get("words"));
    }

    @Test
    void keptAndReplacedByCopies() {
        putWith(Map.of("a", "1"));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey("k")
                .destinationBucket(bucket).destinationKey("kept"));
        assertEquals(Map.of("a", "1"), metadata("kept"));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey("k")
                .destinationBucket(bucket).destinationKey("k")
                .metadataDirective(MetadataDirective.REPLACE).metadata(Map.of("b", "2")));
        assertEquals(Map.of("b", "2"), metadata("k"));
        assertEquals("x", text("k"));
    }

    @Test
    void tooLarge() {
        assertRefused(
                "400 MetadataTooLarge", () -> putWith(Map.of("a", "x".repeat(2048), "b", "y")));
        assertRefused("404 NoSuchKey", () -> bytes("k"));
    }

    @Test
    void keysInUnicode() {
        for (String key : new String[] {WORDS, "a//b", "../c", "d e+f%20&?=#", "/g", "h/", "."}) {
            byte[] want = key.getBytes(StandardCharsets.UTF_8);
            put(key, want);
            assertArrayEquals(want, bytes(key));
            assertEquals(key, S3.listObjectsV2(r -> r.bucket(bucket).prefix(key).maxKeys(1))
                    .contents().get(0).key());
        }
    }
}
