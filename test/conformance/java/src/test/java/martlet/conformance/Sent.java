// SPDX-License-Identifier: Apache-2.0

package martlet.conformance;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.http.SdkHttpRequest;

/** Keeps the requests as they were sent, so that a test knows which kind of body it sends. */
final class Sent implements ExecutionInterceptor {
    private final List<SdkHttpRequest> requests = Collections.synchronizedList(new ArrayList<>());

    @Override
    public void afterTransmission(Context.AfterTransmission context, ExecutionAttributes ignored) {
        requests.add(context.httpRequest());
    }

    /** The header of the last request, empty without it. */
    String header(String name) {
        return requests.get(requests.size() - 1).firstMatchingHeader(name).orElse("");
    }
}
