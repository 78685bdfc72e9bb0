// Package device stores the objects of one disk: it decides when a write is
// durable and visible. What is on the disk is the business of package bundle.
//
// Writes of any partition go through one committer, which flushes what queued
// while the previous flush ran as one batch. Reads never wait for it.
//
// What always holds:
//   - The order of a write is: bytes durable, then index, then acknowledge. See
//     doc/formats/bundle.md for what a crash leaves between the steps.
//   - A name is locked from looking at what is stored until the new record is visible,
//     so a batch has no two records of one name.
//   - After a failed flush nothing of the batch is acknowledged or tried again; a second
//     failure takes the device out (ErrOut).
//   - The calls to the disk are bounded: one that hangs holds no more than its share of
//     threads, and is told as ErrStuck.
//
// Where to begin: Upload.Commit and committer.commit are the write path, Device.Open and
// Object the read path, Open and openFirst recovery. The journal and the file of the part
// power are packages of their own, below this one.
//
// Package server opens one Device for each disk; so do a repair of a disk that is not
// served, and benchmarks. A lock on the disk keeps a second process out.
package device
