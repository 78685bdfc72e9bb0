// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.services.s3.model.Bucket;
import software.amazon.awssdk.services.s3.model.BucketAlreadyOwnedByYouException;
import software.amazon.awssdk.services.s3.model.HeadBucketResponse;
import software.amazon.awssdk.services.s3.model.NoSuchBucketException;

/** Buckets themselves, and waiting for buckets and objects. */
class BucketsTest extends S3Test {
    @Test
    void head() {
        HeadBucketResponse head = S3.headBucket(r -> r.bucket(bucket));
        assertEquals("us-east-1", head.bucketRegion());
        assertThrows(
                NoSuchBucketException.class, () -> S3.headBucket(r -> r.bucket(bucket + "-n")));
        // An empty constraint is that of us-east-1.
        assertEquals("", String.valueOf(
                S3.getBucketLocation(r -> r.bucket(bucket)).locationConstraintAsString()));
    }

    @Test
    void madeTwice() {
        assertThrows(BucketAlreadyOwnedByYouException.class,
                () -> S3.createBucket(r -> r.bucket(bucket)));
    }

    @Test
    void notEmpty() {
        put("k", "x");
        assertRefused("409 BucketNotEmpty", () -> S3.deleteBucket(r -> r.bucket(bucket)));
        assertEquals("x", text("k"));
    }

    @Test
    void listed() {
        List<String> names =
                IntStream.range(0, 3).mapToObj(number -> bucket + "-" + number).toList();
        names.forEach(name -> S3.createBucket(r -> r.bucket(name)));
        assertEquals(names, S3.listBucketsPaginator(r -> r.prefix(bucket + "-").maxBuckets(2))
                .buckets().stream().map(Bucket::name).toList());
        assertTrue(S3.listBuckets().buckets().stream().map(Bucket::name).toList()
                .containsAll(names));
        names.forEach(name -> Buckets.remove(S3, name));
    }

    @Test
    void waiters() {
        try (var waiter = S3.waiter(); var async = ASYNC.waiter()) {
            var head = waiter.waitUntilBucketExists(r -> r.bucket(bucket)).matched().response();
            assertEquals(200, head.orElseThrow().sdkHttpResponse().statusCode());
            var found = async.waitUntilObjectExists(r -> r.bucket(bucket).key("k"));
            ASYNC.putObject(
                    r -> r.bucket(bucket).key("k"), AsyncRequestBody.fromString("123")).join();
            assertEquals(3, found.join().matched().response().orElseThrow().contentLength());
            S3.deleteObject(r -> r.bucket(bucket).key("k"));
            waiter.waitUntilObjectNotExists(r -> r.bucket(bucket).key("k"));
            waiter.waitUntilBucketNotExists(r -> r.bucket(bucket + "-none"));
        }
    }
}
