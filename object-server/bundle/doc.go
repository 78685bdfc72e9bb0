// Package bundle is the on-disk format of a partition and the code that reads,
// recovers and appends to it. doc/formats/bundle.md rules every byte.
//
// A bundle is an append-only log in segments. The log is the only truth: the
// index is rebuilt from it. The package decides what is in the log; when it is
// flushed and when a write is acknowledged is the business of package device.
package bundle
