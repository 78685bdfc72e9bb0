// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import java.net.URI;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3AsyncClientBuilder;
import software.amazon.awssdk.services.s3.S3BaseClientBuilder;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3ClientBuilder;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

/** Clients of the server of S3_ENDPOINT, with the SDK's defaults otherwise. */
final class Clients {
    private Clients() {}

    static S3ClientBuilder sync() {
        return here(S3Client.builder());
    }

    static S3AsyncClientBuilder async() {
        return here(S3AsyncClient.builder());
    }

    /** The client of native code, which sends what is large in parts. */
    static S3AsyncClient crt() {
        return S3AsyncClient.crtBuilder()
                .endpointOverride(endpoint())
                .region(Region.US_EAST_1)
                .forcePathStyle(true)
                .credentialsProvider(credentials())
                .minimumPartSizeInBytes(5L << 20)
                .build();
    }

    static S3Presigner presigner() {
        return S3Presigner.builder()
                .endpointOverride(endpoint())
                .region(Region.US_EAST_1)
                .serviceConfiguration(
                        S3Configuration.builder().pathStyleAccessEnabled(true).build())
                .credentialsProvider(credentials())
                .build();
    }

    static URI endpoint() {
        return URI.create(System.getenv("S3_ENDPOINT"));
    }

    private static <B extends S3BaseClientBuilder<B, C>, C> B here(B builder) {
        return builder.endpointOverride(endpoint())
                .region(Region.US_EAST_1)
                .forcePathStyle(true)
                .credentialsProvider(credentials());
    }

    private static StaticCredentialsProvider credentials() {
        return StaticCredentialsProvider.create(AwsBasicCredentials.create(
                System.getenv("S3_ACCESS_KEY"), System.getenv("S3_SECRET_KEY")));
    }
}
