package bundle

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

// Appended is a batch of one bundle that has been written but not yet flushed.
// It is valid until Publish or Discard.
type Appended struct {
	Accepted    int      // how many of the drafts were written, from the first on
	Bytes       int64    // written
	Directories []string // to be made durable as well, parents last

	bundle *Bundle
	file   *handle
	drafts []*Draft
	tail   int64 // of the segment, once durable
	last   uint64
	iovecs [][]byte
}

// Append writes drafts at the end of the log, as many as the segment takes, at
// least one. Nothing is visible or durable yet: the caller flushes and then
// calls Publish, or Discard when the flush failed.
//
// After ErrNotWritten nothing of the drafts is in the log, and the bundle is as
// it was. After any other error the segment is closed, and what may have been
// written of the drafts is void once the next append succeeds; a restart before
// that may find some of it.
func (b *Bundle) Append(drafts []*Draft) (*Appended, error) {
	a := &b.pending
	*a = Appended{bundle: b, drafts: a.drafts[:0], iovecs: a.iovecs[:0], Directories: a.Directories[:0]}
	if b.active != nil && b.active.tail+drafts[0].Len() > b.segmentSize {
		b.active = nil // full, and all of it is durable
	}
	fresh := b.active == nil
	if fresh {
		if err := b.newSegment(a); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
	} else {
		h, err := b.files.get(fileKey{b.id, b.active.sequence})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		a.file, a.tail = h, b.active.tail
	}
	a.take(drafts)
	if err := a.file.Writev(a.iovecs, a.tail-a.Bytes); err != nil {
		return nil, b.undo(a, fresh, err)
	}
	return a, nil
}

// take stamps the drafts that fit and lines them up for writing.
func (a *Appended) take(drafts []*Draft) {
	b := a.bundle
	a.last = b.lastLSN
	for _, d := range drafts {
		if a.Accepted > 0 && a.tail+d.Len() > b.segmentSize {
			break // the rest goes to a new segment, once this one is durable
		}
		a.last++
		d.stamp(a.last, b.lastLSN, b.active.salt)
		a.iovecs = append(a.iovecs, d.bytes())
		a.drafts = append(a.drafts, d)
		a.tail += d.Len()
		a.Bytes += d.Len()
		a.Accepted++
	}
}

// newSegment makes the directories and an empty segment file, and puts the
// segment header at the head of the batch. A crash from here to the flush
// leaves directories, and a file with any part of the batch.
func (b *Bundle) newSegment(a *Appended) error {
	if err := b.makeDirectories(a); err != nil {
		return err
	}
	head := segmentHeader{
		Policy: uint32(b.id.Policy), Partition: b.id.Partition, Sequence: b.nextSequence,
		BaseLSN: b.lastLSN + 1, Created: uint64(time.Now().UnixMicro() / 10),
	}
	if _, err := rand.Read(head.UUID[:]); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	file, err := b.files.create(fileKey{b.id, b.nextSequence})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.SegmentCreated)
	b.nextSequence++
	b.active = &segment{sequence: head.Sequence, salt: head.salt()}
	encoded := head.encode()
	a.file, a.tail, a.Bytes = file, segmentHeaderSize, segmentHeaderSize
	a.iovecs = append(a.iovecs, encoded)
	return nil
}

func (b *Bundle) makeDirectories(a *Appended) error {
	parent := filepath.Dir(b.directory)
	a.Directories = append(a.Directories, b.directory)
	b.dirMu.Lock()
	durable := b.dirDurable
	b.dirMu.Unlock()
	if durable {
		return nil
	}
	a.Directories = append(a.Directories, parent, filepath.Dir(parent))
	return b.mkdirs(parent, b.directory)
}

func (b *Bundle) mkdirs(directories ...string) error {
	for _, d := range directories {
		if err := b.files.FS.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}

// undo leaves the log as if the failed append had not been tried, where the
// disk was full, and closes the segment otherwise. It returns the error to tell.
func (b *Bundle) undo(a *Appended, fresh bool, cause error) error {
	defer a.finish()
	active := b.active
	if fresh || !errors.Is(cause, vfs.ErrNoSpace) {
		b.active = nil
	}
	if !errors.Is(cause, vfs.ErrNoSpace) {
		return fmt.Errorf("bundle: %w", cause)
	}
	if err := a.file.Truncate(active.tail); err != nil {
		b.active = nil
		return fmt.Errorf("bundle: %w", cause)
	}
	if fresh { // give back the inode; if that fails, opening does it
		_ = b.files.FS.Remove(b.files.path(fileKey{b.id, active.sequence}))
	}
	return fmt.Errorf("%w: %w", ErrNotWritten, cause)
}

func (a *Appended) finish() {
	a.file.release()
	a.file = nil
	clear(a.drafts)
	clear(a.iovecs)
}

// Datasync flushes the segment that was appended to.
func (a *Appended) Datasync() error { return a.file.Datasync() }

// Publish makes a flushed batch visible.
func (a *Appended) Publish() {
	b := a.bundle
	if len(a.Directories) > 1 {
		b.dirMu.Lock()
		b.dirDurable = true
		b.dirMu.Unlock()
	}
	offset := a.tail
	for _, d := range a.drafts {
		offset -= d.Len()
	}
	b.mu.Lock()
	for _, d := range a.drafts {
		if d.head.Type != TypePad {
			b.index.put(d.head.Hash, d.entry(b.active.sequence, offset))
		}
		offset += d.Len()
	}
	b.mu.Unlock()
	newest := a.drafts[len(a.drafts)-1].head
	b.active.tail, b.lastLSN = a.tail, a.last
	b.provenLSN, b.padded = newest.watermark(), newest.Type == TypePad
	a.finish()
}

// Discard gives up a batch whose flush failed. What the disk holds of it is
// unknown, so the segment gets no more records: the base LSN of the next one
// voids whatever lies behind the durable end.
func (a *Appended) Discard() {
	a.bundle.active = nil
	a.finish()
}

// Pad returns a record that proves the last batch to have been durable, or nil
// if there is nothing to prove.
func (b *Bundle) Pad() *Draft {
	if b.active == nil || b.padded || b.provenLSN == b.lastLSN {
		return nil
	}
	d := NewDraft(0)
	d.sealPad()
	return d
}

// CreateLarge makes a large file, without a name where the file system can;
// isNamed tells that it has a temporary one, which RemoveLargeTemp takes away. A
// crash leaves at most a temporary name, and the next opening of the bundle
// removes it.
func (b *Bundle) CreateLarge(id uint64) (f vfs.File, isNamed bool, err error) {
	f, err = b.files.FS.CreateTemp(b.files.Root)
	if errors.Is(err, vfs.ErrNoTemp) {
		isNamed = true
		f, err = b.createNamed(id)
	}
	if err != nil {
		return nil, false, fmt.Errorf("bundle: %w", err)
	}
	return f, isNamed, nil
}

func (b *Bundle) createNamed(id uint64) (vfs.File, error) {
	b.dirMu.Lock()
	defer b.dirMu.Unlock()
	if !b.largeDurable {
		large := filepath.Join(b.directory, largeDirectory)
		if err := b.mkdirs(filepath.Dir(b.directory), b.directory, large); err != nil {
			return nil, err
		}
	}
	return b.files.FS.Create(b.largeTempPath(id))
}

// LinkLarge gives a large file its name and makes the name durable. The file's
// bytes must be durable already. A crash before the record leaves a file that
// the next opening of the bundle removes.
func (b *Bundle) LinkLarge(f vfs.File, id uint64) error {
	large := filepath.Join(b.directory, largeDirectory)
	parent := filepath.Dir(b.directory)
	b.dirMu.Lock()
	defer b.dirMu.Unlock()
	var directories []string
	if !b.largeDurable {
		if err := b.mkdirs(parent, b.directory, large); err != nil {
			return err
		}
		directories = []string{b.directory, parent, filepath.Dir(parent)}
	}
	if err := b.files.FS.Link(f, b.largePath(id)); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	for _, d := range slices.Insert(directories, 0, large) {
		if err := b.files.FS.SyncDir(d); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	b.largeDurable = true
	return nil
}

// OpenLarge opens the large file of a SPILL record.
func (b *Bundle) OpenLarge(id uint64) (vfs.File, error) {
	f, err := b.files.FS.Open(b.largePath(id))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return f, nil
}

// RemoveLarge removes a large file that no live record names any more. If it
// fails, the next opening of the bundle does it.
func (b *Bundle) RemoveLarge(id uint64) { _ = b.files.FS.Remove(b.largePath(id)) }

// RemoveLargeTemp removes the temporary name of a large file, as RemoveLarge.
func (b *Bundle) RemoveLargeTemp(id uint64) { _ = b.files.FS.Remove(b.largeTempPath(id)) }

const (
	largeDirectory  = "large"
	largeSuffix     = ".data"
	largeTempSuffix = ".tmp" // after a dot and the id
)

func (b *Bundle) largeTempPath(id uint64) string {
	return filepath.Join(b.directory, largeDirectory, fmt.Sprintf(".%016x%s", id, largeTempSuffix))
}

func (b *Bundle) largePath(id uint64) string {
	return filepath.Join(b.directory, largeDirectory, fmt.Sprintf("%016x%s", id, largeSuffix))
}
