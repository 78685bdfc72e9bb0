// Package partpower says of which part power the partitions of a storage policy are on
// a device, and keeps that on its disk. doc/formats/bundle.md rules every byte of the
// file.
//
// A part power is what it says on the disk before anything relies on it in memory: File
// has written both halves when Write returns. A name is in one bundle at any moment,
// while partitions are being split as well, and no number is a partition of both powers.
//
// Only the splitter of package device opens and writes the files of a device in use.
// Others may Read them.
package partpower
