// Package journal makes the batches of a device durable with one sequential write and one
// flush each, and replays after a crash what the bundles do not have yet.
// doc/formats/journal.md rules every byte.
//
// What Commit has said to be durable is in the journal until the bundles have it durably:
// a file is begun anew only after a flush of them, and Settle returns only then. A replay
// writes nothing but what was in the bundles before, so it may be repeated. A batch that
// is damaged is not taken for the end of the journal.
//
// Package device opens it where that is the sync method. Its committer alone calls Begin,
// Commit and End; its compactor, caretaker and splitter call Settle and Repair.
package journal
