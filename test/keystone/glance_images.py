"""Glance's store driver with a single-object image and a chunked one: ``AUTH_URL USER KEY``.

Run by the Python of Keystone's virtual environment; the user is ``project:user``.
"""

# mypy: ignore-errors
from __future__ import annotations

import hashlib
import io
import random
import sys

import glance_store
from glance_store import backend, exceptions
from oslo_config import cfg

_MIB = 1 << 20


def configure(url: str, user: str, key: str) -> cfg.ConfigOpts:
    """Return the options of a Glance that stores images in Swift; chunks of 4 MiB from 8 MiB on."""
    conf = cfg.CONF  # the driver reads this one
    glance_store.register_opts(conf)
    conf([])
    for name, value in {
        "stores": ["swift"],
        "default_store": "swift",
        "swift_store_auth_version": "3",
        "swift_store_auth_address": url,
        "swift_store_user": user,
        "swift_store_key": key,
        "swift_store_region": "RegionOne",
        "swift_store_create_container_on_put": True,
        "swift_store_container": "glance",
        "swift_store_large_object_size": 8,
        "swift_store_large_object_chunk_size": 4,
    }.items():
        conf.set_override(name, value, group="glance_store")
    glance_store.create_stores(conf)
    glance_store.verify_default_store()
    return conf


def store_and_delete(conf: cfg.ConfigOpts, name: str, data: bytes, announced: int) -> None:
    """Store, read and delete an image; 0 announced bytes mean an unknown size."""
    location, size, _, digest, _ = backend.add_to_backend_with_multihash(
        conf, name, io.BytesIO(data), announced, "sha256", "swift"
    )
    assert size == len(data)
    assert digest == hashlib.sha256(data).hexdigest()
    chunks, told = glance_store.get_from_backend(location)
    assert b"".join(chunks) == data
    assert int(told) == len(data)
    assert int(glance_store.get_size_from_backend(location)) == len(data)
    glance_store.delete_from_backend(location)
    try:
        glance_store.get_from_backend(location)
    except exceptions.NotFound:
        return
    raise AssertionError(f"{name} is still there")


def main() -> None:
    """Run with both images."""
    conf = configure(*sys.argv[1:])
    chance = random.Random(2)
    # Glance's API rarely knows the size of a large image. If it does, glance_store 5.7 announces a
    # full last chunk and sends less, and no server can complete such a request.
    for name, size, announced in (("small", 1000, 1000), ("large", 11 * _MIB, 0)):
        store_and_delete(conf, name, chance.randbytes(size), announced)
        print(f"{name}: stored, read, measured, deleted")


if __name__ == "__main__":
    main()
