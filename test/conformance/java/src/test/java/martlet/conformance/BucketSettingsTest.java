// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.s3.model.CORSRule;
import software.amazon.awssdk.services.s3.model.ExpirationStatus;
import software.amazon.awssdk.services.s3.model.LifecycleRule;
import software.amazon.awssdk.services.s3.model.ObjectOwnership;
import software.amazon.awssdk.services.s3.model.PublicAccessBlockConfiguration;
import software.amazon.awssdk.services.s3.model.Tag;

/** Settings of a bucket: each is absent, set, read and deleted. */
class BucketSettingsTest extends S3Test {
    @Test
    void policy() {
        assertRefused("404 NoSuchBucketPolicy", () -> S3.getBucketPolicy(r -> r.bucket(bucket)));
        String policy = """
                {"Version": "2012-10-17", "Statement": [{"Sid": "read", "Effect": "Allow",
                 "Principal": "*", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::%s/*"}]}
                """.formatted(bucket);
        S3.putBucketPolicy(r -> r.bucket(bucket).policy(policy));
        String got = S3.getBucketPolicy(r -> r.bucket(bucket)).policy();
        assertEquals(policy.replaceAll("\\s", ""), got.replaceAll("\\s", ""));
        assertTrue(S3.getBucketPolicyStatus(r -> r.bucket(bucket)).policyStatus().isPublic());
        assertRefused("400 MalformedPolicy",
                () -> S3.putBucketPolicy(r -> r.bucket(bucket).policy("{\"Version\": 1}")));
        S3.deleteBucketPolicy(r -> r.bucket(bucket));
        assertRefused("404 NoSuchBucketPolicy", () -> S3.getBucketPolicy(r -> r.bucket(bucket)));
    }

    @Test
    void lifecycle() {
        assertRefused("404 NoSuchLifecycleConfiguration",
                () -> S3.getBucketLifecycleConfiguration(r -> r.bucket(bucket)));
        LifecycleRule old = LifecycleRule.builder().id("old").status(ExpirationStatus.ENABLED)
                .filter(f -> f.and(a -> a.prefix("logs/").tags(
                        Tag.builder().key("keep").value("no").build())))
                .expiration(e -> e.days(30)).build();
        LifecycleRule parts = LifecycleRule.builder().id("parts").status(ExpirationStatus.DISABLED)
                .filter(f -> f.prefix(""))
                .abortIncompleteMultipartUpload(a -> a.daysAfterInitiation(7)).build();
        S3.putBucketLifecycleConfiguration(
                r -> r.bucket(bucket).lifecycleConfiguration(c -> c.rules(old, parts)));
        assertEquals(List.of(old, parts),
                S3.getBucketLifecycleConfiguration(r -> r.bucket(bucket)).rules());
        S3.deleteBucketLifecycle(r -> r.bucket(bucket));
        assertRefused("404 NoSuchLifecycleConfiguration",
                () -> S3.getBucketLifecycleConfiguration(r -> r.bucket(bucket)));
    }

    @Test
    void cors() throws IOException, InterruptedException {
        assertRefused("404 NoSuchCORSConfiguration", () -> S3.getBucketCors(r -> r.bucket(bucket)));
        CORSRule rule = CORSRule.builder().id("one").allowedOrigins("https://*.example.com")
                .allowedMethods("GET", "PUT").allowedHeaders("*").exposeHeaders("ETag")
                .maxAgeSeconds(60).build();
        S3.putBucketCors(r -> r.bucket(bucket).corsConfiguration(c -> c.corsRules(rule)));
        assertEquals(List.of(rule), S3.getBucketCors(r -> r.bucket(bucket)).corsRules());
        put("k", "x");
        assertEquals("https://a.example.com", allowedOrigin("https://a.example.com"));
        assertEquals("", allowedOrigin("https://example.org"));
        S3.deleteBucketCors(r -> r.bucket(bucket));
        assertRefused("404 NoSuchCORSConfiguration", () -> S3.getBucketCors(r -> r.bucket(bucket)));
    }

    /** The answer to a script of the origin that reads with a presigned URL. */
    private String allowedOrigin(String origin) throws IOException, InterruptedException {
        try (var presigner = Clients.presigner()) {
            String url = presigner.presignGetObject(r -> r.signatureDuration(Duration.ofMinutes(1))
                    .getObjectRequest(g -> g.bucket(bucket).key("k"))).url().toString();
            HttpRequest request =
                    HttpRequest.newBuilder(URI.create(url)).header("Origin", origin).build();
            var answer = HttpClient.newHttpClient()
                    .send(request, HttpResponse.BodyHandlers.discarding());
            assertEquals(200, answer.statusCode());
            return answer.headers().firstValue("Access-Control-Allow-Origin").orElse("");
        }
    }

    @Test
    void publicAccessBlock() {
        PublicAccessBlockConfiguration all = PublicAccessBlockConfiguration.builder()
                .blockPublicAcls(true).blockPublicPolicy(true)
                .ignorePublicAcls(true).restrictPublicBuckets(true).build();
        S3.putPublicAccessBlock(
                r -> r.bucket(bucket).publicAccessBlockConfiguration(all));
        assertEquals(all, S3.getPublicAccessBlock(
                r -> r.bucket(bucket)).publicAccessBlockConfiguration());
        String policy = """
                {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
                 "Action": "s3:GetObject", "Resource": "arn:aws:s3:::%s/*"}]}
                """.formatted(bucket);
        assertRefused("403 AccessDenied",
                () -> S3.putBucketPolicy(r -> r.bucket(bucket).policy(policy)));
        S3.deletePublicAccessBlock(r -> r.bucket(bucket));
        assertRefused("404 NoSuchPublicAccessBlockConfiguration",
                () -> S3.getPublicAccessBlock(r -> r.bucket(bucket)));
        S3.putBucketPolicy(r -> r.bucket(bucket).policy(policy));
    }

    @Test
    void ownershipControls() {
        S3.putBucketOwnershipControls(r -> r.bucket(bucket).ownershipControls(
                o -> o.rules(u -> u.objectOwnership(ObjectOwnership.BUCKET_OWNER_ENFORCED))));
        assertEquals(ObjectOwnership.BUCKET_OWNER_ENFORCED, S3.getBucketOwnershipControls(
                r -> r.bucket(bucket)).ownershipControls().rules().get(0).objectOwnership());
        S3.deleteBucketOwnershipControls(r -> r.bucket(bucket));
        assertRefused("404 OwnershipControlsNotFoundError",
                () -> S3.getBucketOwnershipControls(r -> r.bucket(bucket)));
    }

    @Test
    void whatIsNotSet() {
        assertRefused("404 ReplicationConfigurationNotFoundError",
                () -> S3.getBucketReplication(r -> r.bucket(bucket)));
        assertRefused("404 NoSuchWebsiteConfiguration",
                () -> S3.getBucketWebsite(r -> r.bucket(bucket)));
        assertFalse(S3.getBucketNotificationConfiguration(r -> r.bucket(bucket))
                .hasQueueConfigurations());
        assertEquals("BucketOwner", S3.getBucketRequestPayment(r -> r.bucket(bucket))
                .payerAsString());
        assertEquals(null, S3.getBucketVersioning(r -> r.bucket(bucket)).status());
        assertEquals(null, S3.getBucketAccelerateConfiguration(r -> r.bucket(bucket)).status());
        assertEquals(null, S3.getBucketLogging(r -> r.bucket(bucket)).loggingEnabled());
    }
}
