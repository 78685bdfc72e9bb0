// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.DeleteObjectsResponse;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.ObjectLockEnabled;
import software.amazon.awssdk.services.s3.model.ObjectLockLegalHoldStatus;
import software.amazon.awssdk.services.s3.model.ObjectLockMode;
import software.amazon.awssdk.services.s3.model.ObjectLockRetention;
import software.amazon.awssdk.services.s3.model.ObjectLockRetentionMode;

/** Retention and legal hold: versions that cannot be removed. */
class LocksTest extends S3Test {
    private static final String KEY = "k";
    private static final Instant TOMORROW =
            Instant.now().plus(Duration.ofDays(1)).truncatedTo(ChronoUnit.SECONDS);

    @Override
    boolean hasLocks() {
        return true;
    }

    private void remove(String version, boolean bypass) {
        S3.deleteObject(r -> r.bucket(bucket).key(KEY).versionId(version)
                .bypassGovernanceRetention(bypass ? true : null));
    }

    private ObjectLockRetention retention(String version) {
        return S3.getObjectRetention(
                r -> r.bucket(bucket).key(KEY).versionId(version)).retention();
    }

    @Test
    void governance() {
        String version = S3.putObject(
                r -> r.bucket(bucket).key(KEY).objectLockMode(ObjectLockMode.GOVERNANCE)
                        .objectLockRetainUntilDate(TOMORROW),
                RequestBody.fromString("x")).versionId();
        assertEquals(TOMORROW, retention(version).retainUntilDate());
        assertEquals(ObjectLockRetentionMode.GOVERNANCE, retention(version).mode());
        var head = S3.headObject(r -> r.bucket(bucket).key(KEY));
        assertEquals(ObjectLockMode.GOVERNANCE, head.objectLockMode());
        assertEquals(TOMORROW, head.objectLockRetainUntilDate());
        assertRefused("403 AccessDenied", () -> remove(version, false));
        assertRefused("403 AccessDenied", () -> retain(version, TOMORROW.minusSeconds(3600)));
        retain(version, TOMORROW.plusSeconds(3600)); // a longer one is allowed
        remove(version, true);
        assertRefused("404 NoSuchKey", () -> text(KEY));
    }

    private void retain(String version, Instant until) {
        S3.putObjectRetention(r -> r.bucket(bucket).key(KEY).versionId(version)
                .retention(l -> l.mode(ObjectLockRetentionMode.GOVERNANCE).retainUntilDate(until)));
        assertEquals(until, retention(version).retainUntilDate());
    }

    @Test
    void compliance() throws InterruptedException {
        Instant soon = Instant.now().plusSeconds(4).truncatedTo(ChronoUnit.SECONDS);
        String version = S3.putObject(
                r -> r.bucket(bucket).key(KEY).objectLockMode(ObjectLockMode.COMPLIANCE)
                        .objectLockRetainUntilDate(soon),
                RequestBody.fromString("x")).versionId();
        assertRefused("403 AccessDenied", () -> remove(version, false));
        assertRefused("403 AccessDenied", () -> remove(version, true));
        Thread.sleep(Duration.between(Instant.now(), soon.plusSeconds(2)).toMillis());
        remove(version, false);
        assertRefused("404 NoSuchKey", () -> text(KEY));
    }

    @Test
    void legalHold() {
        String version = S3.putObject(
                r -> r.bucket(bucket).key(KEY)
                        .objectLockLegalHoldStatus(ObjectLockLegalHoldStatus.ON),
                RequestBody.fromString("x")).versionId();
        assertEquals(ObjectLockLegalHoldStatus.ON, S3.headObject(
                r -> r.bucket(bucket).key(KEY)).objectLockLegalHoldStatus());
        assertRefused("403 AccessDenied", () -> remove(version, true));
        DeleteObjectsResponse refused = S3.deleteObjects(r -> r.bucket(bucket).delete(
                d -> d.objects(ObjectIdentifier.builder().key(KEY).versionId(version).build())));
        assertEquals("AccessDenied", refused.errors().get(0).code());
        S3.deleteObject(r -> r.bucket(bucket).key(KEY)); // a marker of deletion is allowed
        S3.putObjectLegalHold(r -> r.bucket(bucket).key(KEY).versionId(version)
                .legalHold(h -> h.status(ObjectLockLegalHoldStatus.OFF)));
        assertEquals("OFF", S3.getObjectLegalHold(
                r -> r.bucket(bucket).key(KEY).versionId(version)).legalHold().statusAsString());
        remove(version, false);
    }

    @Test
    void defaultRetention() {
        S3.putObjectLockConfiguration(r -> r.bucket(bucket).objectLockConfiguration(
                c -> c.objectLockEnabled(ObjectLockEnabled.ENABLED).rule(
                        u -> u.defaultRetention(
                                d -> d.mode(ObjectLockRetentionMode.GOVERNANCE).days(2)))));
        var kept = S3.getObjectLockConfiguration(r -> r.bucket(bucket)).objectLockConfiguration();
        assertEquals(2, kept.rule().defaultRetention().days());
        String version = put(KEY, "x").versionId();
        assertEquals(ObjectLockRetentionMode.GOVERNANCE, retention(version).mode());
        long hours = ChronoUnit.HOURS.between(Instant.now(), retention(version).retainUntilDate());
        assertEquals(47, hours, 1);
    }

    @Test
    void without() {
        String version = put(KEY, "x").versionId();
        assertRefused("404 NoSuchObjectLockConfiguration", () -> retention(version));
        var kept = S3.getObjectLockConfiguration(r -> r.bucket(bucket)).objectLockConfiguration();
        assertEquals(ObjectLockEnabled.ENABLED, kept.objectLockEnabled());
        assertNull(kept.rule());
        assertRefused("409 InvalidBucketState", () -> S3.putBucketVersioning(
                r -> r.bucket(bucket).versioningConfiguration(v -> v.status("Suspended"))));
        String other = bucket + "-plain";
        S3.createBucket(r -> r.bucket(other));
        assertRefused("404 ObjectLockConfigurationNotFoundError",
                () -> S3.getObjectLockConfiguration(r -> r.bucket(other)));
        Buckets.remove(S3, other);
    }
}
