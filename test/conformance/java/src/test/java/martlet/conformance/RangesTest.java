// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;

/** Parts of an object, as readers of Parquet and ORC ask for them. */
class RangesTest extends S3Test {
    private static final String KEY = "table.parquet";
    private static final byte[] BODY = data(MIB + 5);

    private void assertRange(String range, int from, int to) {
        ResponseBytes<GetObjectResponse> got =
                S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).range(range));
        assertArrayEquals(Arrays.copyOfRange(BODY, from, to), got.asByteArray());
        GetObjectResponse response = got.response();
        assertEquals(206, response.sdkHttpResponse().statusCode());
        assertEquals(
                "bytes " + from + "-" + (to - 1) + "/" + BODY.length, response.contentRange());
        assertEquals((long) to - from, response.contentLength());
        assertArrayEquals(got.asByteArray(), ASYNC.getObject(
                r -> r.bucket(bucket).key(KEY).range(range),
                AsyncResponseTransformer.toBytes()).join().asByteArray());
    }

    @Test
    void ranges() {
        put(KEY, BODY);
        assertRange("bytes=0-0", 0, 1);
        assertRange("bytes=0-3", 0, 4);
        assertRange("bytes=65535-65536", 65_535, 65_537);
        assertRange("bytes=-8", BODY.length - 8, BODY.length);
        assertRange("bytes=1048576-", MIB, BODY.length);
        assertRange("bytes=10-99999999", 10, BODY.length);
        assertRange("bytes=-99999999", 0, BODY.length);
    }

    @Test
    void unsatisfiable() {
        put(KEY, BODY);
        assertRefused("416 InvalidRange", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).range("bytes=" + BODY.length + "-")));
        put("empty", "");
        assertRefused("416 InvalidRange", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key("empty").range("bytes=0-0")));
    }

    @Test
    void whatIsNoRangeIsIgnored() {
        put(KEY, BODY);
        GetObjectResponse got = S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).range("bytes=5-2")).response();
        assertEquals(200, got.sdkHttpResponse().statusCode());
        assertEquals((long) BODY.length, got.contentLength());
    }

    @Test
    void anObjectIsItsOnlyPart() {
        put(KEY, BODY);
        ResponseBytes<GetObjectResponse> got =
                S3.getObjectAsBytes(r -> r.bucket(bucket).key(KEY).partNumber(1));
        assertArrayEquals(BODY, got.asByteArray());
        assertEquals(206, got.response().sdkHttpResponse().statusCode());
        assertRefused("400 InvalidRequest", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).partNumber(1).range("bytes=0-1")));
    }

    @Test
    void ofAnObjectThatChanged() {
        String etag = put(KEY, BODY).eTag();
        put(KEY, "short");
        assertRefused("412 PreconditionFailed", () -> S3.getObjectAsBytes(
                r -> r.bucket(bucket).key(KEY).range("bytes=0-3").ifMatch(etag)));
        assertTrue(S3.headObject(r -> r.bucket(bucket).key(KEY)).acceptRanges().contains("bytes"));
    }
}
