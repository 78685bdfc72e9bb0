// Package serve answers replicators: it gives and takes the records of the partitions of a server's devices, over the grid.
// See doc/formats/replication.md, "Messages".
package serve
