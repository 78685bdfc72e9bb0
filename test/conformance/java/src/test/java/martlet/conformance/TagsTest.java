// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.Tag;
import software.amazon.awssdk.services.s3.model.Tagging;
import software.amazon.awssdk.services.s3.model.TaggingDirective;

/** Tags of objects and of buckets. */
class TagsTest extends S3Test {
    private static final String KEY = "k";
    private static final List<Tag> TAGS = List.of(tag("ü +=@", "日本"), tag("empty", ""));

    private static Tag tag(String key, String value) {
        return Tag.builder().key(key).value(value).build();
    }

    private Set<Tag> tags(String key) {
        return Set.copyOf(S3.getObjectTagging(r -> r.bucket(bucket).key(key)).tagSet());
    }

    @Test
    void setAndDelete() {
        put(KEY, "x");
        assertEquals(Set.of(), tags(KEY));
        S3.putObjectTagging(r -> r.bucket(bucket).key(KEY).tagging(t -> t.tagSet(TAGS)));
        assertEquals(Set.copyOf(TAGS), tags(KEY));
        assertEquals(2, S3.headObject(r -> r.bucket(bucket).key(KEY)).tagCount());
        S3.putObjectTagging(r -> r.bucket(bucket).key(KEY).tagging(t -> t.tagSet(tag("a", "b"))));
        assertEquals(Set.of(tag("a", "b")), tags(KEY));
        S3.deleteObjectTagging(r -> r.bucket(bucket).key(KEY));
        assertEquals(Set.of(), tags(KEY));
    }

    @Test
    void withThePut() {
        S3.putObject(
                r -> r.bucket(bucket).key(KEY).tagging(Tagging.builder().tagSet(TAGS).build()),
                RequestBody.fromString("x"));
        assertEquals(Set.copyOf(TAGS), tags(KEY));
    }

    @Test
    void ofCopies() {
        S3.putObject(r -> r.bucket(bucket).key(KEY).tagging("a=1"), RequestBody.fromString("x"));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket).destinationKey("kept"));
        assertEquals(Set.of(tag("a", "1")), tags("kept"));
        S3.copyObject(r -> r.sourceBucket(bucket).sourceKey(KEY)
                .destinationBucket(bucket).destinationKey("replaced")
                .taggingDirective(TaggingDirective.REPLACE).tagging("b=2"));
        assertEquals(Set.of(tag("b", "2")), tags("replaced"));
    }

    @Test
    void tooMany() {
        put(KEY, "x");
        List<Tag> eleven = IntStream.range(0, 11).mapToObj(n -> tag("k" + n, "v"))
                .toList();
        assertRefused("400 BadRequest", () -> S3.putObjectTagging(
                r -> r.bucket(bucket).key(KEY).tagging(t -> t.tagSet(eleven))));
        List<Tag> twice = List.of(tag("k", "1"), tag("k", "2"));
        assertRefused("400 InvalidTag", () -> S3.putObjectTagging(
                r -> r.bucket(bucket).key(KEY).tagging(t -> t.tagSet(twice))));
        assertRefused("404 NoSuchKey", () -> S3.putObjectTagging(
                r -> r.bucket(bucket).key("none").tagging(t -> t.tagSet(TAGS))));
        assertTrue(tags(KEY).isEmpty());
    }

    @Test
    void ofBuckets() {
        assertRefused("404 NoSuchTagSet", () -> S3.getBucketTagging(r -> r.bucket(bucket)));
        S3.putBucketTagging(r -> r.bucket(bucket).tagging(t -> t.tagSet(TAGS)));
        assertEquals(
                Set.copyOf(TAGS), Set.copyOf(S3.getBucketTagging(r -> r.bucket(bucket)).tagSet()));
        S3.deleteBucketTagging(r -> r.bucket(bucket));
        assertRefused("404 NoSuchTagSet", () -> S3.getBucketTagging(r -> r.bucket(bucket)));
    }
}
