// Package wire has the messages between a replicator and object servers; see doc/formats/replication.md, "Messages".
package wire
