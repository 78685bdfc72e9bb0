# SPDX-License-Identifier: Apache-2.0
"""Object versioning: ``X-Versions-Enabled`` on a container, ``?versions``, ``?version-id=``.

The object servers keep the versions of a name. For each write this filter says which version it
makes, and for each read which version is meant. The id of a version is its X-Timestamp, so it is
the same on every replica and when a write is repeated. See doc/versioning.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import HTTPException
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.middleware.versions.container_lookup import ContainerLookup
from proxy.middleware.versions.container_requests import ContainerRequests
from proxy.middleware.versions.object_reads import ObjectReads
from proxy.middleware.versions.object_writes import ObjectWrites
from proxy.middleware.versions.query import RequestedObject, version_parameter
from proxy.replicas.versions import NULL


class ObjectVersioning:
    """The filter."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app
        containers = ContainerLookup(app)
        self._container_requests = ContainerRequests(app, containers)
        self._reads = ObjectReads(app, containers)
        self._writes = ObjectWrites(app, containers)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer 400 to a bad or forbidden use of versions, and 404 for an unknown version. A
        listing of versions in another format than JSON gets 406. Else the pipeline answers.
        """
        try:
            _, account, container, obj = split_path(environ["PATH_INFO"], 3, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        try:
            account, container = wsgi_to_str(account or ""), wsgi_to_str(container or "")
            if not obj:
                answer = self._container_requests.answer(environ, account, container)
            else:
                target = RequestedObject(account, container, version_parameter(environ))
                answer = self._object_method(environ, target)
        except BadNameError:
            return self._app(environ, start_response)  # the proxy rejects the name
        except HTTPException as error:
            answer = error
        return answer(environ, start_response)

    def _object_method(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        method = environ["REQUEST_METHOD"]
        if method in ("GET", "HEAD"):
            read = self._reads.read_version if target.version else self._reads.read
            return read(environ, target)
        if method == "PUT":
            put = self._writes.restore if target.version else self._writes.put
            return put(environ, target)
        if method == "DELETE":
            if target.version and target.version != NULL:
                return self._writes.delete_version(environ, target)
            return self._writes.delete(environ, target)
        return self._writes.post(environ, target) if method == "POST" else self._app
