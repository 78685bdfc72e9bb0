// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import java.util.concurrent.CompletableFuture;
import software.amazon.awssdk.http.SdkHttpRequest;
import software.amazon.awssdk.http.auth.aws.scheme.AwsV4AuthScheme;
import software.amazon.awssdk.http.auth.aws.signer.AwsV4HttpSigner;
import software.amazon.awssdk.http.auth.spi.signer.AsyncSignRequest;
import software.amazon.awssdk.http.auth.spi.signer.AsyncSignedRequest;
import software.amazon.awssdk.http.auth.spi.signer.SignRequest;
import software.amazon.awssdk.http.auth.spi.signer.SignedRequest;
import software.amazon.awssdk.identity.spi.AwsCredentialsIdentity;
import software.amazon.awssdk.identity.spi.IdentityProvider;
import software.amazon.awssdk.identity.spi.IdentityProviders;

/** Signs as the SDK does over TLS, where it leaves bodies unsigned. The endpoint is plain HTTP. */
final class AsOverTls implements AwsV4AuthScheme, AwsV4HttpSigner {
    private final AwsV4AuthScheme scheme = AwsV4AuthScheme.create();

    @Override
    public String schemeId() {
        return scheme.schemeId();
    }

    @Override
    public IdentityProvider<AwsCredentialsIdentity> identityProvider(IdentityProviders providers) {
        return scheme.identityProvider(providers);
    }

    @Override
    public AwsV4HttpSigner signer() {
        return this;
    }

    @Override
    public SignedRequest sign(SignRequest<? extends AwsCredentialsIdentity> request) {
        SignedRequest signed = scheme.signer()
                .sign(request.copy(r -> r.request(with("https", request.request()))));
        return signed.copy(r -> r.request(with("http", signed.request())));
    }

    @Override
    public CompletableFuture<AsyncSignedRequest> signAsync(
            AsyncSignRequest<? extends AwsCredentialsIdentity> request) {
        return scheme.signer()
                .signAsync(request.copy(r -> r.request(with("https", request.request()))))
                .thenApply(signed -> signed.copy(r -> r.request(with("http", signed.request()))));
    }

    private static SdkHttpRequest with(String protocol, SdkHttpRequest request) {
        return request.copy(r -> r.protocol(protocol));
    }
}
