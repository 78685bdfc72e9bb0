// Package device stores the objects of one disk: it decides when a write is
// durable and visible. What is on the disk is the business of package bundle.
//
// Writes of any partition go through one committer, which flushes what queued
// while the previous flush ran as one batch. Reads never wait for it.
//
// The order of a write is: bytes durable, then index, then acknowledge. See
// doc/formats/bundle.md for what a crash leaves between the steps.
package device
