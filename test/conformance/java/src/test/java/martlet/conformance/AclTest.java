// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.BucketCannedACL;
import software.amazon.awssdk.services.s3.model.Grant;
import software.amazon.awssdk.services.s3.model.ObjectCannedACL;
import software.amazon.awssdk.services.s3.model.Permission;
import software.amazon.awssdk.services.s3.model.Type;

/** Access control lists of buckets and objects, canned and by grants. */
class AclTest extends S3Test {
    private static final String ALL = "http://acs.amazonaws.com/groups/global/AllUsers";

    private static boolean allMayRead(List<Grant> grants) {
        return grants.stream().anyMatch(grant -> grant.permission() == Permission.READ
                && grant.grantee().type() == Type.GROUP && ALL.equals(grant.grantee().uri()));
    }

    @Test
    void ofBuckets() {
        var before = S3.getBucketAcl(r -> r.bucket(bucket));
        assertEquals(1, before.grants().size());
        Grant own = before.grants().get(0);
        assertEquals(Permission.FULL_CONTROL, own.permission());
        assertEquals(Type.CANONICAL_USER, own.grantee().type());
        assertEquals(before.owner().id(), own.grantee().id());
        S3.putBucketAcl(r -> r.bucket(bucket).acl(BucketCannedACL.PUBLIC_READ));
        assertTrue(allMayRead(S3.getBucketAcl(r -> r.bucket(bucket)).grants()));
        S3.putBucketAcl(r -> r.bucket(bucket).acl(BucketCannedACL.PRIVATE));
        assertEquals(before.grants(), S3.getBucketAcl(r -> r.bucket(bucket)).grants());
    }

    @Test
    void ofObjects() {
        put("k", "x");
        var before = S3.getObjectAcl(r -> r.bucket(bucket).key("k"));
        assertEquals(List.of(Permission.FULL_CONTROL),
                before.grants().stream().map(Grant::permission).toList());
        Grant read = Grant.builder().permission(Permission.READ)
                .grantee(g -> g.type(Type.GROUP).uri(ALL)).build();
        S3.putObjectAcl(r -> r.bucket(bucket).key("k").accessControlPolicy(
                p -> p.owner(before.owner()).grants(before.grants().get(0), read)));
        List<Grant> after = S3.getObjectAcl(r -> r.bucket(bucket).key("k")).grants();
        assertEquals(2, after.size());
        assertTrue(allMayRead(after));
        S3.putObject(
                r -> r.bucket(bucket).key("public").acl(ObjectCannedACL.PUBLIC_READ),
                RequestBody.fromString("x"));
        assertTrue(allMayRead(S3.getObjectAcl(r -> r.bucket(bucket).key("public")).grants()));
    }

    @Test
    void refused() {
        put("k", "x");
        assertRefused("404 NoSuchKey", () -> S3.getObjectAcl(r -> r.bucket(bucket).key("none")));
        assertRefused("400 InvalidArgument",
                () -> S3.putObjectAcl(r -> r.bucket(bucket).key("k").acl("nonsense")));
    }
}
