// Package lifecycle carries out the lifecycle rules of buckets: it removes what they say has expired (doc/lifecycle.md).
//
// A pass reads the bundles of the devices of a host, one partition after the other. The rules of a bucket come from its
// container server, once in a pass. What is due is removed through the object servers of all replicas, as any DELETE.
//
// Invariants: of each name the first replica that is there decides. It removes nothing unless more than half of the replicas
// answer, and all that answer have the same current version. A write that comes meanwhile wins.
package lifecycle
