// Package replicator makes the replicas of objects equal: it compares the partitions of the devices of one host with those of
// their peers, and sends what these miss. It is a process of its own, which reads and writes through object servers.
//
//	partitions of a device -> digests, own and of each peer -> names that differ -> records -> peer
//
// A record only goes from the device of this host to a peer. The peer's own replicator sends what this host misses. Only
// damage is mended the other way round: the replicator asks peers for what a device has lost.
package replicator
