package ring

import "crypto/md5"

// Hasher places names: the prefix and suffix are the cluster's [swift-hash] secrets and must never change.
type Hasher struct {
	prefix, suffix string
}

// NewHasher returns a Hasher for swift_hash_path_prefix and swift_hash_path_suffix.
func NewHasher(prefix, suffix string) Hasher { return Hasher{prefix, suffix} }

// Object returns the hash of an object's name.
func (h Hasher) Object(account, container, object string) [16]byte {
	return h.Path(account, container, object)
}

// Container returns the hash of a container's name.
func (h Hasher) Container(account, container string) [16]byte { return h.Path(account, container) }

// Path returns md5(prefix + "/" + the segments joined with "/" + suffix).
func (h Hasher) Path(segments ...string) [16]byte {
	name := make([]byte, 0, 256)
	name = append(name, h.prefix...)
	for _, segment := range segments {
		name = append(name, '/')
		name = append(name, segment...)
	}
	name = append(name, h.suffix...)
	return md5.Sum(name)
}
