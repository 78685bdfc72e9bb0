// Package auditor reads what the devices of one host store, and checks every checksum. It is a process of its own, which
// reads the files beside the object server that owns them, and changes nothing but its own cursors. Of what it finds damaged it
// tells the server. The server reads that partition itself: what was being written, moved or removed is no damage. It keeps
// damaged records from being served, and the replicator of the host gets them from peers.
//
//	device -> partitions in their order, at a rate -> what seems damaged -> the server confirms it -> a hint for the replicator
//
// A full pass reads every byte. A fast pass reads all but the bytes of objects: headers, metadata, footers, sizes.
package auditor
