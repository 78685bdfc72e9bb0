// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import java.util.ArrayList;
import java.util.List;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectVersionsResponse;
import software.amazon.awssdk.services.s3.model.MultipartUpload;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Error;

/** Removes a bucket with all that is in it. */
final class Buckets {
    private Buckets() {}

    static void remove(S3Client s3, String bucket) {
        for (MultipartUpload upload :
                s3.listMultipartUploadsPaginator(r -> r.bucket(bucket)).uploads()) {
            s3.abortMultipartUpload(
                    r -> r.bucket(bucket).key(upload.key()).uploadId(upload.uploadId()));
        }
        // The next page of a listing begins after what the one before has shown.
        for (ListObjectVersionsResponse page :
                s3.listObjectVersionsPaginator(r -> r.bucket(bucket))) {
            removeVersions(s3, bucket, page);
        }
        s3.deleteBucket(r -> r.bucket(bucket));
    }

    private static void removeVersions(
            S3Client s3, String bucket, ListObjectVersionsResponse page) {
        List<ObjectIdentifier> doomed = new ArrayList<>();
        page.versions()
                .forEach(version -> doomed.add(identifier(version.key(), version.versionId())));
        page.deleteMarkers()
                .forEach(marker -> doomed.add(identifier(marker.key(), marker.versionId())));
        if (doomed.isEmpty()) {
            return;
        }
        List<S3Error> refused = s3.deleteObjects(r -> r.bucket(bucket)
                .bypassGovernanceRetention(true)
                .delete(d -> d.objects(doomed).quiet(true))).errors();
        if (!refused.isEmpty()) {
            throw new IllegalStateException("not removed: " + refused);
        }
    }

    private static ObjectIdentifier identifier(String key, String version) {
        return ObjectIdentifier.builder().key(key).versionId(version).build();
    }
}
